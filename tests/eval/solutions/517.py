# %% I look at the two columns.
pairs = titanic[["Pclass", "Fare"]].dropna()
print(pairs.describe())

# %% Pearson's r.
print(f"@correlation_pclass_fare[{pairs['Pclass'].corr(pairs['Fare']):.2f}]")
