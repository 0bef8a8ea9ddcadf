# %% Those who embarked at Cherbourg.
cherbourg = titanic_train[titanic_train["Embarked"] == "C"]
print(cherbourg.groupby("Pclass")["Fare"].describe())

# %% Pearson's r with its two-tailed p-value.
from scipy import stats

r, p = stats.pearsonr(cherbourg["Pclass"], cherbourg["Fare"])

# %% The answer.
print(f"@correlation_coefficient[{r:.2f}]")
print(f"@p_value[{p:.4f}]")
print(f"@relationship_significance[{'significant' if p < 0.01 else 'not significant'}]")
