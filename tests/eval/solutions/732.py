# %% What is missing?
life = gapminder_cleaned["lifeexp"]
before = life.isna().sum()
print(before)

# %% The mean of the country; of the whole table, where a country has none.
country = life.groupby(gapminder_cleaned["country"]).transform("mean")
filled = life.fillna(country).fillna(life.mean())

# %% The answer.
print(f"@number_of_missing_values_in_lifeexp_before[{before}]")
print(f"@number_of_missing_values_in_lifeexp_after[{filled.isna().sum()}]")
