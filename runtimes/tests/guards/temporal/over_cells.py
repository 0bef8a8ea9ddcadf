# The clock is read in one cell and used in another.
# finds: clock
load_data()
from datetime import datetime
anchor = {"now": datetime.now(), "name": "report"}
# %%
waited = [(anchor["now"] - row.at).days for row in activities.itertuples()]
print(min(waited) > 100)
