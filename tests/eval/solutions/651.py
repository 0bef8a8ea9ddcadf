# %% I look at the quartiles.
low, high = DES_2006261["Z"].quantile([0.25, 0.75])
print(low, high)

# %% Beyond 1.5 interquartile ranges.
reach = 1.5 * (high - low)
outliers = DES_2006261.loc[(DES_2006261["Z"] < low - reach) | (DES_2006261["Z"] > high + reach), "Z"]
print(f"@outlier_count[{len(outliers)}]")
