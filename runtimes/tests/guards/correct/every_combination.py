# A cross join says so.
load_data()
grid = accounts[["region"]].drop_duplicates().merge(calendar, how="cross")
print(len(grid))
