# %% I look at the closing prices.
print(GODREJIND["Close Price"].describe())

# %% The answer.
print(f"@mean_close_price[{GODREJIND['Close Price'].mean():.2f}]")
