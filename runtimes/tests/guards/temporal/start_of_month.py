# This month of the clock, not of the data.
# finds: clock
load_data()
from datetime import date
first = date.today().replace(day=1)
print((deals["created_at"].dt.date >= first).sum(), "deals this month")
