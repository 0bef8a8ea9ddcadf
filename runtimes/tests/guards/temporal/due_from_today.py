# Two days after the call, not after now.
# finds: clock
load_data()
from datetime import datetime, timedelta
today = datetime.now()
tasks = [{"deal": deal["id"], "due": today + timedelta(days=deal["call"]["days"])} for deal in deals.to_dict("records")]
print(len(tasks))
