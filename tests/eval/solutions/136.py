# %% Fares by class.
print(titanic.groupby("Pclass")["Fare"].describe())

# %% Shapiro-Wilk for each.
from scipy import stats

p = {number: stats.shapiro(fares)[1] for number, fares in titanic.groupby("Pclass")["Fare"]}
print(p)

# %% The answer.
print(", ".join(f"@p_value_class_{number}[{p[number]:.4f}]" for number in [1, 2, 3]))
