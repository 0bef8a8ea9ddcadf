# Deals that nobody works on have no activity: the answer is zero.
load_data()
silent = deals[~deals["id"].isin(activities["deal_id"])]
touched = silent.merge(activities, left_on="id", right_on="deal_id")
print(len(silent), len(touched))
