# %% I look at the two columns.
print(gapminder_cleaned[["pop", "gdppercap"]].describe())

# %% Pearson's r with its p-value.
from scipy import stats

r, p = stats.pearsonr(gapminder_cleaned["pop"], gapminder_cleaned["gdppercap"])
print(f"@correlation_coefficient[{r:.2f}]")
print(f"@p_value[{p:.4f}]")
