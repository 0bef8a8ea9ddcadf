# The clock against the clock of a file.
load_data()
import os, time
from datetime import datetime
with open("totals.csv", "w") as file:
    file.write(str(deals["amount"].sum()))
print(time.time() - os.path.getmtime("totals.csv") < 600, datetime.now() > datetime.fromtimestamp(os.path.getmtime("totals.csv") - 5))
