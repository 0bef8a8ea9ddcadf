# %% I look at the ages.
age = titanic["Age"].dropna()
print(age.describe())

# %% SciPy's Z-scores.
from scipy import stats

z = stats.zscore(age)
print(f"@outliers_count[{(abs(z) > 3).sum()}]")
