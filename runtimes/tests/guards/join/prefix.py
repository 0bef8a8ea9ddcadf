# The account's number has a prefix in one system.
# finds: key-mismatch
load_data()
both = deals.merge(accounts, left_on="account_id", right_on="crm_id", suffixes=("", "_crm"))
print(len(both))
