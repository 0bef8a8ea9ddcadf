# %% I look at the volumes.
print(microsoft["Volume"].describe())

# %% Mean and standard deviation by pandas.
print(f"@mean_volume[{microsoft['Volume'].mean():.2f}]")
print(f"@std_dev_volume[{microsoft['Volume'].std():.2f}]")
