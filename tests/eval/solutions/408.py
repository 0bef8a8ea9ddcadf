# %% How many passengers have an age?
pairs = titanic_train[["Fare", "Age"]].dropna()
print(len(pairs), "of", len(titanic_train))

# %% Pearson's r with its two-tailed p-value.
from scipy import stats

r, p = stats.pearsonr(pairs["Fare"], pairs["Age"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"

# %% The answer.
print(f"@correlation_coefficient[{r:.2f}]")
print(f"@p_value[{p:.4f}]")
print(f"@relationship_type[{kind}]")
