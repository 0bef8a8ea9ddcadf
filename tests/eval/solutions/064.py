# %% I look at the wages.
wage = beauty_and_the_labor_market["wage"]
print(wage.describe())

# %% The answer.
print(f"@mean_wage[{wage.mean():.2f}] @std_wage[{wage.std():.2f}]")
