# %% I look at the two columns.
print(auto_mpg[["mpg", "weight"]].describe())

# %% Pearson's r.
r = auto_mpg["mpg"].corr(auto_mpg["weight"])
print(f"@correlation_coefficient[{r:.2f}]")
