# %% I look at the coordinate.
x = DES_2006261["X"]
print(x.describe())

# %% Beyond 3 standard deviations.
z = (x - x.mean()) / x.std()
kept = x[z.abs() <= 3]

# %% The answer.
print(f"@number_of_outliers[{len(x) - len(kept)}]")
print(f"@new_mean[{kept.mean():.2f}]")
print(f"@new_standard_deviation[{kept.std():.2f}]")
