# A task for tomorrow, from today's data.
# data: live
load_data()
from datetime import date, timedelta
tomorrow = date.today() + timedelta(days=1)
print(tomorrow > date.today())
