# %% The first line of the file is a title, so the column of wins bears the tournament's name.
print(Current_Logan.head())

# %% What is no number is left out.
import pandas as pd

wins = pd.to_numeric(Current_Logan["JAMES LOGAN"], errors="coerce")
print(wins.notna().sum(), "of", len(wins), "rows are numbers")

# %% The answer.
print(f"@mean_wins[{wins.mean()}]")
