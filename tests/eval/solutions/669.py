# %% I look at the quartiles.
income = my_test_01["MedInc"]
low, high = income.quantile([0.25, 0.75])
print(low, high)

# %% Within 1.5 interquartile ranges.
reach = 1.5 * (high - low)
kept = income[income.between(low - reach, high + reach)]
print(len(income) - len(kept), "outliers")

# %% The answer.
print(f"@mean[{kept.mean():.2f}] @standard_deviation[{kept.std():.2f}]")
