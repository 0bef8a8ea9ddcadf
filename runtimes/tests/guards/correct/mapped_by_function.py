# A function is no table.
load_data()
print(deals["amount"].map(lambda amount: amount if amount > 1e9 else None).notna().sum())
