# Both sides are counted before they are joined.
load_data()
per_deal = emails.groupby("deal_id", as_index=False).agg(emails=("thread_id", "count"))
minutes = activities.groupby("deal_id", as_index=False)["minutes"].sum()
both = deals.merge(per_deal, left_on="id", right_on="deal_id", how="left").merge(minutes, on="deal_id", how="left")
print(both["emails"].sum(), both["minutes"].sum())
