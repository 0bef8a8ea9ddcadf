# %% I look at the coordinates.
print(DES_2006261[["X", "Y", "Z"]].describe())

# %% All correlations at once.
r = DES_2006261[["X", "Y", "Z"]].corr()
print(r)

# %% The answer.
print(f"@correlation_XY[{r.loc['X', 'Y']:.2f}]")
print(f"@correlation_XZ[{r.loc['X', 'Z']:.2f}]")
