# %% I look at the fares.
fare = titanic["Fare"]
print(fare.describe())

# %% Z-scores beyond 3.
z = (fare - fare.mean()) / fare.std()
print(f"@outlier_count[{(z.abs() > 3).sum()}]")
