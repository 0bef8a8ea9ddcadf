# %% Both times in seconds.
import pandas as pd

calls = data_20170413_000000_group_statistics.rename(columns=str.strip)
wait = pd.to_timedelta(calls["avg. wait time"]).dt.total_seconds()
gone = pd.to_timedelta(calls["avg. abandonment time"]).dt.total_seconds()
print((gone == 0).sum(), "of", len(gone), "rows have nobody who gave up")

# %% The ratio in percent exists only where somebody gave up.
ratio = (wait / gone * 100)[gone > 0]
skewness = ratio.skew()
print(ratio.describe())

# %% The answer.
print(f"@waiting_ratio_skewness[{skewness:.2f}]")
print(f"@is_normal[{abs(skewness) < 0.5}]")
