# No table at all: dictionaries and a loop.
# finds: clock
load_data()
from datetime import date
stale = 0
for row in emails.to_dict("records"):
    if (date.today() - date.fromisoformat(row["sent_at"][:10])).days > 14:
        stale += 1
print(stale)
