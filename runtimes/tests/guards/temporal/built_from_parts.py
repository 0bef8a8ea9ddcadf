# The first of the year, put together.
# finds: clock
load_data()
from datetime import datetime
now = datetime.now()
month = datetime(now.year, now.month, 1)
print((activities["at"] >= month).sum())
