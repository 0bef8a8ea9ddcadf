# How old a deal is depends on when this runs.
# finds: clock
load_data()
import pandas as pd
deals["age"] = (pd.Timestamp.today() - deals["created_at"]).dt.days
print((deals["age"] > 0).all())
