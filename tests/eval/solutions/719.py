# %% I look at the column.
print(auto_mpg["mpg"].describe())

# %% The answer.
print(f"@mean_mpg[{auto_mpg['mpg'].mean():.2f}], @median_mpg[{auto_mpg['mpg'].median():.2f}]")
