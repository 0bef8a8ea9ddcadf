# Deals without an email, found on purpose.
load_data()
marked = deals.merge(emails[["deal_id"]].drop_duplicates(), left_on="id", right_on="deal_id", how="left", indicator=True)
print((marked["_merge"] == "left_only").sum())
