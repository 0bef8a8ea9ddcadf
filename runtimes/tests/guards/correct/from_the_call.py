# The due date follows the call.
load_data()
from datetime import datetime, timedelta
due = [datetime.fromisoformat(call["at"]) + timedelta(days=call["days"]) for call in deals["call"]]
print(max(due).date(), max(due).strftime("%A"))
