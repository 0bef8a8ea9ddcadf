# %% I look at the ages.
print(Credit["Age"].describe())

# %% Shapiro-Wilk.
from scipy import stats

statistic, p = stats.shapiro(Credit["Age"])
print(f"@is_normal[{'Not Normal' if p < 0.05 else 'Normal'}]")
