# %% I look at the column.
gdp = gapminder_gdp_asia["gdpPercap_2007"]
print(gdp.describe())

# %% The answer.
print(f"@mean_gdp2007[{gdp.mean():.2f}], @standard_deviation_gdp2007[{gdp.std():.2f}]")
