# Nobody said where the data ends; the code asks the data.
# data: untold
load_data()
import pandas as pd
end = max(activities["at"].max(), deals["created_at"].max())
print(((end - activities["at"]).dt.days <= 7).sum())
