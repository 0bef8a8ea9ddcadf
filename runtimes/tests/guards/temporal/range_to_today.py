# Days are filled up to the clock.
# finds: clock
load_data()
import pandas as pd
days = pd.date_range(start=activities["at"].min(), end=pd.Timestamp.today(), freq="D")
print(len(days) > 60)
