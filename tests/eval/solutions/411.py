# %% I look at the quartiles.
fare = titanic_train["Fare"]
low, high = fare.quantile([0.25, 0.75])
print(low, high)

# %% Beyond 1.5 interquartile ranges.
reach = 1.5 * (high - low)
outliers = fare[(fare < low - reach) | (fare > high + reach)]

# %% The answer.
print(f"@outlier_count[{len(outliers)}]")
print(f"@outlier_range_low[{outliers.min():.2f}] @outlier_range_high[{outliers.max():.2f}]")
