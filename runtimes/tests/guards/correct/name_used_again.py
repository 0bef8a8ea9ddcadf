# `today` is the clock's first, then the data's.
load_data()
import pandas as pd
today = pd.Timestamp.now()
print("made in", today.year >= 2026)
# %%
today = activities["at"].max()
recent = activities[activities["at"] > today - pd.Timedelta(days=7)]
print(len(recent))
