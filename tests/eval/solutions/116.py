# %% I look at the scores.
score = _2015["Happiness Score"]
print(score.describe())

# %% Z-scores with the population's standard deviation.
z = (score - score.mean()) / score.std(ddof=0)
outliers = _2015.loc[z.abs() > 3, "Country"]
print(f"@outlier_countries[{','.join(outliers)}]")
