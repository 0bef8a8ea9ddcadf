# %% I look at the values.
print(oecd_education_spending["Value"].describe())

# %% Missing values are left out by default.
print(f"@mean_value[{oecd_education_spending['Value'].mean():.2f}]")
