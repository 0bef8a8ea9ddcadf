# The same, one row at a time.
# finds: clock
load_data()
from datetime import datetime
ages = deals["created_at"].apply(lambda created: (datetime.now() - created).days)
print(ages.min() > 100)
