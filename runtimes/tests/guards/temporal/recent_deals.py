# The last 30 days of the data are meant.
# finds: clock
load_data()
import pandas as pd
recent = deals[deals["created_at"] > pd.Timestamp.now() - pd.Timedelta(days=30)]
print(len(recent), "new deals")
