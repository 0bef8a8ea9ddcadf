# %% I look at the two coordinates.
print(DES_2006261[["X", "Y"]].describe())

# %% Pearson's r; below 0.05 it counts as none.
r = DES_2006261["X"].corr(DES_2006261["Y"])
if abs(r) < 0.05:
    r = 0
print(f"@correlation_coefficient[{r:.3f}]")
