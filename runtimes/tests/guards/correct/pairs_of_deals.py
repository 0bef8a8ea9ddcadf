# Deals of the same account, as pairs.
load_data()
small = deals[["id", "account_id", "amount"]]
pairs = small.merge(small, on="account_id", suffixes=("", "_other"))
print((pairs["id"] < pairs["id_other"]).sum())
