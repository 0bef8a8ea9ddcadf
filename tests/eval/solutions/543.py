# %% I look at the two columns.
print(abalone[["Diameter", "Rings"]].describe())

# %% Pearson's r.
r = abalone["Diameter"].corr(abalone["Rings"])
print(f"@correlation_coefficient[{r:.2f}]")
print(f"@relationship_status[{'correlate' if abs(r) >= 0.1 else 'none'}]")
