# %% I look at the two columns.
print(Credit[["Limit", "Balance"]].describe())

# %% Pearson's r.
print(f"@correlation_coefficient[{Credit['Limit'].corr(Credit['Balance']):.2f}]")
