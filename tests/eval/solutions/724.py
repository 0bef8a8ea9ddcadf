# %% I look at the column.
acceleration = auto_mpg["acceleration"]
print(acceleration.describe())

# %% Z-scores outside -3 to 3 go.
z = (acceleration - acceleration.mean()) / acceleration.std(ddof=0)
kept = acceleration[z.abs() <= 3]
print(acceleration[z.abs() > 3])

# %% The answer, with the population's standard deviation.
print(f"@mean_acceleration[{kept.mean():.2f}]")
print(f"@std_acceleration[{kept.std(ddof=0):.2f}]")
