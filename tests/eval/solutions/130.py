# %% I look at the ages.
age = titanic["Age"].dropna()
print(age.describe())

# %% Shapiro-Wilk.
from scipy import stats

statistic, p = stats.shapiro(age)
print(f"@norm_test_pvalue[{p:.4f}] @is_normal[{bool(p > 0.05)}]")
