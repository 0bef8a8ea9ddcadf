# Every deal of an owner meets every activity of the owner.
# finds: fan-out
load_data()
both = deals.merge(activities, on="owner")
print(both.groupby("owner")["amount"].sum().round(2).to_dict())
