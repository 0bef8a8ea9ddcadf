# ACC-0007 here, acc-0007 there.
# finds: key-mismatch
load_data()
both = deals.merge(accounts, on="account_id")
print(both.groupby("region")["amount"].sum().to_dict())
