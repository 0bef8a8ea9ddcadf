# %% I look at the two columns.
print(GODREJIND[["High Price", "Low Price"]].describe())

# %% Pearson's r with its two-tailed p-value.
from scipy import stats

r, p = stats.pearsonr(GODREJIND["High Price"], GODREJIND["Low Price"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"

# %% The answer.
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
