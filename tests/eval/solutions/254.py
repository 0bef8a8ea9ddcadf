# %% I look at the year.
gdp = gapminder_gdp_asia.set_index("country")["gdpPercap_1982"]
print(gdp.sort_values().tail())

# %% The rule of 1.5 interquartile ranges.
low, high = gdp.quantile([0.25, 0.75])
reach = 1.5 * (high - low)
outliers = gdp[(gdp < low - reach) | (gdp > high + reach)]

# %% The answer.
print(f"@outlier_countries[{', '.join(outliers.index)}]")
