# %% I look at the fares, which are bands here.
print(test_x["Fare"].value_counts())

# %% Shapiro-Wilk.
from scipy import stats

statistic, p = stats.shapiro(test_x["Fare"])
print(f"@is_normal[{bool(p > 0.05)}]")
