# %% I look at both columns.
pairs = oecd_education_spending[["TIME", "Value"]].dropna()
print(pairs.describe())

# %% Pearson's r.
r = pairs["TIME"].corr(pairs["Value"])
print(f"@correlation_coefficient[{r:.2f}]")
