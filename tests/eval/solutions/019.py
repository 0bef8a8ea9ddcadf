# %% I look at the column.
column = unemployement_industry["Mar.2020"].dropna()
print(column.describe())

# %% The Fisher-Pearson coefficient is what SciPy's `skew` computes.
from scipy import stats

skewness = round(stats.skew(column), 2)
print(skewness)

# %% The answer.
print(f"@is_normal[{'Yes' if -0.5 <= skewness <= 0.5 else 'No'}]")
