# %% I look at the two columns.
calls = data_20170413_000000_group_statistics.rename(columns=str.strip)
print(calls[["avg. num. agents talking", "avg. wait time"]].describe())

# %% Waiting times become seconds.
import pandas as pd

seconds = pd.to_timedelta(calls["avg. wait time"]).dt.total_seconds().astype(int)
r = calls["avg. num. agents talking"].corr(seconds)

# %% The answer.
print(f"@correlation_coefficient[{r:.3f}]")
