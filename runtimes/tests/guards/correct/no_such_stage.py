# A stage that no deal is in.
load_data()
print(len(deals[deals["stage"].isin(["churned", "paused"])]))
