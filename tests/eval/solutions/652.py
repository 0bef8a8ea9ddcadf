# %% I look at the coordinate.
print(DES_2006261["X"].describe())

# %% SciPy's `normaltest`.
from scipy import stats

statistic, p = stats.normaltest(DES_2006261["X"])
print(f"@normality_test_p_value[{p:.4f}] @normal_distribution[{bool(p >= 0.05)}]")
