# The first join is right; the second one repeats its amounts.
# finds: fan-out
load_data()
import pandas as pd
both = pd.merge(deals, emails, left_on="id", right_on="deal_id")
all_three = both.merge(activities[["deal_id", "minutes"]], on="deal_id")
print(all_three["amount"].sum())
