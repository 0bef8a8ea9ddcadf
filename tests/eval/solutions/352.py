# %% I look at the fares.
fare = test_x["Fare"]
print(fare.describe())

# %% Z-scores beyond 3 either way.
z = (fare - fare.mean()) / fare.std()
outliers = sorted(fare[z.abs() > 3])
print(f"@fare_outliers[{', '.join(map(str, outliers))}]")
