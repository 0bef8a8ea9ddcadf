# Dates as text sort well, but the cutoff is today's.
# finds: clock
load_data()
from datetime import date, timedelta
cutoff = (date.today() - timedelta(days=7)).strftime("%Y-%m-%d")
print((emails["sent_at"] >= cutoff).sum(), "emails this week")
