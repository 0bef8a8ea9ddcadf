# %% The question names Z-scores, the constraints the interquartile range: they decide.
charges = insurance["charges"]
low, high = charges.quantile([0.25, 0.75])
reach = 1.5 * (high - low)
print(low - reach, high + reach)

# %% What lies outside.
outliers = charges[(charges < low - reach) | (charges > high + reach)]
print(f"@total_outliers[{len(outliers)}]")
print(f"@mean_charges_outliers[{outliers.mean():.2f}]")
print(f"@median_charges_outliers[{outliers.median():.2f}]")
