# The regions are in capitals.
# finds: key-mismatch
load_data()
chosen = accounts[accounts["region"].isin(["emea", "apac"])]
print(chosen["employees"].sum())
