# %% The wins stand in the column that bears the tournament's name; its first row is the real header.
print(Current_Logan["JAMES LOGAN"].unique())

# %% Only rows with a number count.
import pandas as pd

wins = pd.to_numeric(Current_Logan["JAMES LOGAN"], errors="coerce").dropna()
print(wins.describe())

# %% The answer.
print(f"@mean_wins[{wins.mean():.2f}]")
print(f"@stddev_wins[{wins.std():.2f}]")
