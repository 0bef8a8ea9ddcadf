# The same with moments, and a limit.
load_data()
from datetime import datetime, timedelta
begin = datetime.now()
until = begin + timedelta(seconds=30)
count = 0
for created in deals["created_at"]:
    if datetime.now() > until:
        break
    count += 1
print(count, datetime.now() - begin < timedelta(minutes=5))
