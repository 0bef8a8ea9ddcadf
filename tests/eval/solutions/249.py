# %% I look at both columns.
columns = ["number_of_doubles", "salary_in_thousands_of_dollars"]
pairs = baseball_data[columns].dropna()
print(pairs.describe())

# %% Pearson's r with its two-tailed p-value.
from scipy import stats

r, p = stats.pearsonr(pairs[columns[0]], pairs[columns[1]])
print("significant" if p < 0.05 else "no significant correlation")
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}]")
