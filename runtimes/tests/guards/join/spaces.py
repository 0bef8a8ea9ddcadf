# The exported region ends with a space.
# finds: key-mismatch
load_data()
march = targets[targets["month"] == "2026-03-01"]
both = accounts.merge(march, on="region", how="left")
print(both["target"].sum())
