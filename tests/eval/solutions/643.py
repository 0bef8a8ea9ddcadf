# %% I look at the volumes.
volume = random_stock_data["Volume"]
print(volume.describe())

# %% The answer.
print(f"@mean_volume[{volume.mean():.2f}]")
print(f"@std_volume[{volume.std():.2f}]")
print(f"@min_volume[{volume.min():.2f}]")
print(f"@max_volume[{volume.max():.2f}]")
