# The anchor is a day that somebody wrote down.
load_data()
import pandas as pd
today = pd.Timestamp("2026-03-20")
print((deals["created_at"] > today - pd.Timedelta(days=7)).sum())
