# A column of days, counted on from now.
# finds: clock
load_data()
import pandas as pd
follow_up = pd.Timestamp.now().normalize() + pd.to_timedelta(deals["call"].map(lambda call: call["days"]), unit="D")
print(len(follow_up))
