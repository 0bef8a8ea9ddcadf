# A slice of a time series from a date that was counted back from now.
# finds: clock
load_data()
import pandas as pd
series = activities.set_index("at").sort_index()["minutes"]
print(series.loc[pd.Timestamp.now() - pd.Timedelta(days=10):].sum())
