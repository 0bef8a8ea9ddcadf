# %% The price range of each entry.
price_range = random_stock_data["High"] - random_stock_data["Low"]
print(price_range.describe())

# %% Shapiro-Wilk.
from scipy import stats

statistic, p = stats.shapiro(price_range)
print(statistic, p)

# %% The answer.
print(f"@price_range_mean[{price_range.mean():.2f}] @price_range_stddev[{price_range.std():.2f}]")
print(f"@price_range_p_value[{p:.4f}] @is_normal[{'yes' if p > 0.05 else 'no'}]")
