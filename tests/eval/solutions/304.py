# %% I look at the fares.
print(titanic["Fare"].describe())

# %% Shapiro-Wilk.
from scipy import stats

statistic, p = stats.shapiro(titanic["Fare"])
print(f"@normality_test_result[{bool(p > 0.05)}]")
