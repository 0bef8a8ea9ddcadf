# Case is brought to one form first.
load_data()
deals["account_id"] = deals["account_id"].str.lower()
both = deals.merge(accounts, on="account_id", validate="m:1")
print(both.groupby("region")["amount"].sum().round(2).to_dict())
