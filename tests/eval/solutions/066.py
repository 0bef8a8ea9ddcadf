# %% I look at the two columns.
workers = beauty_and_the_labor_market
print(workers[["wage", "exper"]].describe())

# %% Pearson's r with its two-tailed p-value.
from scipy import stats

r, p = stats.pearsonr(workers["wage"], workers["exper"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"

# %% The answer.
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
