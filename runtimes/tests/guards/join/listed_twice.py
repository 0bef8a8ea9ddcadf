# Two owners are in the directory twice, so their deals count twice.
# finds: fan-out
load_data()
both = deals.merge(owners, left_on="owner_email", right_on="email", how="left")
print(both.groupby("team")["amount"].sum().round(2).to_dict())
