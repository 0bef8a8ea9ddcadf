# The clock against a day that is written down.
load_data()
from datetime import datetime
if datetime.now() > datetime(2020, 1, 1):
    print(deals["amount"].sum())
