# %% I look at the quartiles.
value = oecd_education_spending["Value"]
low, high = value.quantile([0.25, 0.75])
print(low, high, value.min(), value.max())

# %% Rows beyond 1.5 interquartile ranges, counted from 0.
reach = 1.5 * (high - low)
rows = value.index[(value < low - reach) | (value > high + reach)]
print(f"@outliers[{', '.join(map(str, rows))}]")
