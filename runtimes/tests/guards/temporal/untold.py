# The manifest does not say where the data ends; the data does.
# finds: clock
# data: untold
load_data()
from datetime import datetime, timedelta
recent = [row for row in activities.to_dict("records") if row["at"] >= datetime.now() - timedelta(days=30)]
print(len(recent))
