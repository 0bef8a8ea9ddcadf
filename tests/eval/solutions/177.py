# %% Ages in the two classes.
first, third = (titanic.loc[titanic["Pclass"] == number, "Age"].dropna() for number in [1, 3])
print(first.describe(), third.describe())

# %% Mann-Whitney.
from scipy import stats

statistic, p = stats.mannwhitneyu(first, third)
print(f"@p_value[{p:.4f}]")
print(f"@significance[{'Yes' if p < 0.05 else 'No'}]")
