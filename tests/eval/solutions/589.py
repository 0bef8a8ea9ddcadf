# %% I look for the row that begins at 8:00.
import pandas as pd

calls = data_20170413_000000_group_statistics.rename(columns=str.strip)
at = pd.to_datetime(calls["timestamp"].astype(str).str.split().str.join(" "), format="mixed")
row = calls[at == pd.Timestamp("2017-04-13 08:00:00")].iloc[0]
print(row)

# %% The share of calls that were abandoned, of those that were answered or abandoned.
made = row["num. calls answered"] + row["num. calls abandoned"]
rate = row["num. calls abandoned"] / made * 100

# %% The answer.
print(f"@abandonment_rate[{rate:.2f}]")
