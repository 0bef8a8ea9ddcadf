# %% Waiting times in seconds.
import pandas as pd

calls = data_20170413_000000_group_statistics.rename(columns=str.strip)
wait = pd.to_timedelta(calls["avg. wait time"]).dt.total_seconds()
print(wait.describe())

# %% Z-scores beyond 3.
z = (wait - wait.mean()) / wait.std()
print(wait[z.abs() > 3])

# %% The answer.
print(f"@num_of_outliers[{(z.abs() > 3).sum()}]")
