# %% I look at the closing prices.
close = YAHOO_BTC_USD_D["Close"]
print(close.describe(), close.isna().sum())

# %% The answer.
print(f"@mean_close[{close.mean():.2f}], @median_close[{close.median():.2f}], @std_close[{close.std():.2f}]")
