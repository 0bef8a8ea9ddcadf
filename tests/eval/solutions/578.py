# %% I look at the volumes.
print(e5_aapl["Volume"].describe())

# %% The answer.
print(f"@mean_volume[{e5_aapl['Volume'].mean():.2f}]")
