# Whoever says many-to-many means it.
load_data()
both = emails.merge(activities, on="deal_id", validate="m:m")
print(both["thread_id"].nunique())
