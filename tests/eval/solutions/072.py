# %% I look at the closing prices.
print(microsoft["Close"].describe())

# %% Shapiro-Wilk.
from scipy import stats

statistic, p = stats.shapiro(microsoft["Close"])
print(f"@normality_test_result[{'Non-normal' if p < 0.05 else 'Normal'}]")
