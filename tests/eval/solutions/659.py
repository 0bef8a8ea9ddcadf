# %% I look at the two columns.
pairs = YAHOO_BTC_USD_D[["High", "Low"]].dropna()
print(pairs.describe())

# %% Pearson's r.
print(f"@correlation_high_low[{pairs['High'].corr(pairs['Low']):.2f}]")
