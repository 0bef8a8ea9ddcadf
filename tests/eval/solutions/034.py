# %% I look at the two columns.
pairs = imp_score_ldlr_metabolome[["row retention time", "importance.score"]].dropna()
print(pairs.describe())

# %% Pearson's r with its two-tailed p-value.
from scipy import stats

r, p = stats.pearsonr(pairs["row retention time"], pairs["importance.score"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"

# %% The answer.
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
