# %% I look at both columns.
print(baseball_data[["batting_average", "on_base_percentage"]].describe())

# %% The difference, where both are there.
difference = (baseball_data["batting_average"] - baseball_data["on_base_percentage"]).dropna()
print(f"@mean[{difference.mean():.2f}] @std_dev[{difference.std():.2f}]")
