# %% I look at the column.
ratio = imp_score_ldlr_metabolome["row m/z"].dropna()
print(ratio.describe())

# %% Kolmogorov-Smirnov against the normal distribution with this mean and deviation.
from scipy import stats

statistic, p = stats.kstest(ratio, stats.norm(ratio.mean(), ratio.std()).cdf)
decision = "normally distributed" if p >= 0.05 else "not normally distributed"
print(f"@ks_test_p_value[{p:.4f}] @normality_decision[{decision}]")
