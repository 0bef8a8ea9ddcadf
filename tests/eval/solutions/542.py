# %% I look at the lengths.
print(abalone["Length"].describe())

# %% The answer, in the table's own unit.
print(f"@mean_length[{abalone['Length'].mean():.2f}]")
