# %% I look at the coordinates.
print(DES_2006261[["X", "Y", "Z"]].describe())

# %% The answer.
print(f"@mean_x[{DES_2006261['X'].mean():.3f}] @std_dev_x[{DES_2006261['X'].std():.3f}]")
