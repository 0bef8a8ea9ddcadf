# %% I look at the humidity.
humidity = ravenna_250715["humidity"]
print(humidity.describe())

# %% Shapiro-Wilk, with alpha 0.05.
from scipy import stats

statistic, p = stats.shapiro(humidity)
kind = "normal" if p > 0.05 else "not normal"
print(statistic, p)

# %% The answer.
print(f"@shapiro_p_value[{p:.4f}] @distribution_type[{kind}]")
