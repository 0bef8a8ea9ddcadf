# Two lists of events of the same deal, multiplied.
# finds: fan-out
load_data()
both = emails.merge(activities, on="deal_id")
print(both.groupby("deal_id")["minutes"].sum().head(3).to_dict())
