# %% I look at the fares.
fare = titanic["Fare"]
print(fare.describe())

# %% The population's standard deviation divides by n.
mean = fare.sum() / fare.count()
deviation = (((fare - mean) ** 2).sum() / fare.count()) ** 0.5
print(f"@mean_fare[{mean:.2f}] @std_dev_fare[{deviation:.2f}]")
