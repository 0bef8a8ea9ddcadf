# %% I look at the two columns, and for missing values.
print(titanic_test[["Pclass", "Fare"]].isna().sum())

# %% Pearson's r over rows that have both.
pairs = titanic_test[["Pclass", "Fare"]].dropna()
print(f"@correlation_coefficient[{pairs['Pclass'].corr(pairs['Fare']):.2f}]")
