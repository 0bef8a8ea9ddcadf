# %% I look at the two columns.
print(test_x[["Age", "Fare"]].describe())

# %% Pearson's r by pandas.
r = test_x[["Age", "Fare"]].corr(method="pearson").loc["Age", "Fare"]
print(f"@correlation_coefficient[{r:.2f}]")
