# The same in a loop.
# data: live
load_data()
from datetime import datetime, timedelta
fresh = [row for row in activities.to_dict("records") if datetime.now() - row["at"] < timedelta(days=7)]
print(len(fresh) > 0)
