# %% I look at the averages.
print(baseball_data["batting_average"].describe(), baseball_data["batting_average"].isna().sum())

# %% Over the players who have one.
mean = baseball_data["batting_average"].dropna().mean()
print(f"@mean_batting_average[{mean:.3f}]")
