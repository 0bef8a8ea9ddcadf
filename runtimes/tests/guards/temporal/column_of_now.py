# The clock goes into a column first.
# finds: clock
load_data()
import pandas as pd
deals["today"] = pd.Timestamp.now()
deals["days_open"] = (deals["today"] - deals["created_at"]).dt.days
print((deals["days_open"] > 0).all())
