# Codes that do not occur.
load_data()
deals["rank"] = deals["stage"].map({"churned": 9}).fillna(0)
print(deals["rank"].sum())
