# %% I look at the balances.
balance = Credit["Balance"]
print(balance.describe())

# %% More than 3 standard deviations from the mean.
z = (balance - balance.mean()) / balance.std()
print(f"@outliers[{(z.abs() > 3).sum()}]")
