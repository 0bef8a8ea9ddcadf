# %% I look at the scores.
score = data_2015["Happiness Score"]
print(score.describe())

# %% Z-scores with the population's standard deviation.
z = (score - score.mean()) / score.std(ddof=0)
outliers = data_2015.loc[z.abs() > 3, "Country"]
print(f"@outlier_countries[{','.join(outliers)}]")
