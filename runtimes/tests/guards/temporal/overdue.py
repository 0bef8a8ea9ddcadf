# Deals that were to close after the data ends are called overdue.
# finds: clock
load_data()
import pandas as pd
overdue = deals[(deals["stage"] == "open") & (deals["close_date"] < pd.Timestamp.now())]
print(len(overdue) > 0)
