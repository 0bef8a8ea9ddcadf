# Region and month together are the key.
load_data()
targets["region"] = targets["region"].str.strip()
deals["account_id"] = deals["account_id"].str.lower()
deals["month"] = deals["created_at"].dt.to_period("M").dt.to_timestamp()
sales = deals.merge(accounts, on="account_id").groupby(["region", "month"], as_index=False)["amount"].sum()
print(sales.merge(targets, on=["region", "month"], how="left")["target"].notna().sum())
