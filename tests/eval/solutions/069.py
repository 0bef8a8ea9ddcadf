# %% I look at the two columns.
workers = beauty_and_the_labor_market
print(workers[["exper", "looks"]].describe())

# %% Their product against the wage.
score = workers["exper"] * workers["looks"]
print(f"@correlation[{score.corr(workers['wage']):.3f}]")
