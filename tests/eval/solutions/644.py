# %% I look at the closing prices.
print(random_stock_data["Close"].describe())

# %% Shapiro-Wilk.
from scipy import stats

statistic, p = stats.shapiro(random_stock_data["Close"])
result = "Not a normal distribution" if p < 0.05 else "Normal distribution"
print(f"@p_value[{p:.4f}]")
print(f"@result[{result}]")
