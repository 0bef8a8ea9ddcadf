# %% I look at both columns.
print(ravenna_250715[["pressure", "wind_speed"]].describe())

# %% Pearson's r with its two-tailed p-value.
from scipy import stats

r, p = stats.pearsonr(ravenna_250715["pressure"], ravenna_250715["wind_speed"])
significance = "significant" if p < 0.05 else "not significant"

# %% The answer.
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_significance[{significance}]")
