# %% The mean damage of each year.
storms = cost_data_with_errors.query("2000 <= year <= 2010").dropna(subset=["damage_USD"])
means = storms.groupby("year")["damage_USD"].mean()
print(means)

# %% Analysis of variance.
from scipy import stats

statistic, p = stats.f_oneway(*(group for _, group in storms.groupby("year")["damage_USD"]))

# %% The answer.
print(f"@average_damage[{', '.join(f'{mean:.2f}' for mean in means)}]")
print(f"@p_value[{p:.4f}]")
print(f"@difference_type[{'significant' if p < 0.05 else 'none'}]")
