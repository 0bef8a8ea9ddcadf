# Ten deals have no email, and that is so.
load_data()
both = deals.merge(emails, left_on="id", right_on="deal_id", how="left")
print(both["thread_id"].isna().sum())
