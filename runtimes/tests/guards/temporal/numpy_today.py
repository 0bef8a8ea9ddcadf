# numpy has a word for today.
# finds: clock
load_data()
import numpy as np
days = np.datetime64("today") - deals["created_at"].values.astype("datetime64[D]")
print(bool((days > np.timedelta64(30, "D")).all()))
