# %% I look at the home runs.
runs = baseball_data["number_of_home_runs"].dropna()
print(runs.describe())

# %% Shapiro-Wilk.
from scipy import stats

statistic, p = stats.shapiro(runs)
print(f"@p_value[{p:.4f}] @normality_test[{'not_normal' if p < 0.05 else 'normal'}]")
