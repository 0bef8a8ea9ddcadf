# The clock is read inside a function.
# finds: clock
load_data()
from datetime import datetime, timezone

def days_since(moment):
    return (datetime.now(timezone.utc).replace(tzinfo=None) - moment).days

print(activities["at"].map(days_since).min() > 100)
