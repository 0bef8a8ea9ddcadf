# %% The range of each day.
price_range = GODREJIND["High Price"] - GODREJIND["Low Price"]
print(price_range.describe())

# %% The answer.
print(f"@price_range_mean[{price_range.mean():.2f}]")
print(f"@price_range_median[{price_range.median():.2f}]")
print(f"@price_range_std_dev[{price_range.std():.2f}]")
