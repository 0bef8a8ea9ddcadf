# %% I look at the fares.
fare = titanic["Fare"]
print(fare.describe())

# %% What has a Z-score above 3 goes.
z = (fare - fare.mean()) / fare.std()
kept = titanic[~(z > 3)]
print(f"@number_of_entries_left[{len(kept)}]")
