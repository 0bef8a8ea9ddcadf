# %% I look at the column.
gdp = gapminder_cleaned["gdppercap"]
print(gdp.describe())

# %% SciPy's `normaltest`.
from scipy import stats

statistic, p = stats.normaltest(gdp)
print(f"@distribution_normality[{'normal' if p > 0.05 else 'not normal'}]")
