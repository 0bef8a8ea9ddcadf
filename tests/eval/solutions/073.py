# %% I look at the two columns.
print(microsoft[["High", "Low"]].describe())

# %% Pearson's r.
r = microsoft["High"].corr(microsoft["Low"])
print(f"@correlation_coefficient[{r:.2f}]")
