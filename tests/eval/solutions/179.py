# %% First class, survived.
chosen = titanic[(titanic["Survived"] == 1) & (titanic["Pclass"] == 1)]
print(chosen[["Age", "Fare"]].describe())

# %% Pearson's r over those with an age.
print(f"@correlation_coefficient[{chosen['Age'].corr(chosen['Fare']):.3f}]")
