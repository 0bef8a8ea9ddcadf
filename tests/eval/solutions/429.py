# %% I look at the two columns.
pairs = cost_data_with_errors[["max_storm_cat", "damage_USD"]].dropna()
print(pairs.describe())

# %% Pearson's r with its two-tailed p-value.
from scipy import stats

r, p = stats.pearsonr(pairs["max_storm_cat"], pairs["damage_USD"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"

# %% The answer.
print(f"@correlation_coefficient[{r:.2f}]")
print(f"@p_value[{p:.4f}]")
print(f"@relationship_type[{kind}]")
