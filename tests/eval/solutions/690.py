# %% I look at the wind speeds.
wind = ravenna_250715["wind_speed"]
print(wind.describe())

# %% Z-scores beyond 3 are outliers.
z = (wind - wind.mean()) / wind.std()
outliers = wind[z.abs() > 3]
kept = wind[z.abs() <= 3]
print(outliers.tolist())

# %% The answer.
print(f"@number_of_outliers[{len(outliers)}]")
print(f"@mean_wind_speed[{kept.mean():.2f}] @std_deviation_wind_speed[{kept.std():.2f}]")
