# A query string with a cutoff from outside.
# finds: clock
load_data()
import pandas as pd
cutoff = pd.Timestamp.now().normalize() - pd.DateOffset(months=1)
print(len(activities.query("at > @cutoff")))
