# %% I look at the column; what is no number counts as missing.
import pandas as pd

power = pd.to_numeric(auto_mpg["horsepower"], errors="coerce")
print(power.describe(), power.isna().sum())

# %% The strongest car, and all of its model year. Years have two digits here.
year = auto_mpg.loc[power.idxmax(), "modelyear"]
same_year = power[auto_mpg["modelyear"] == year].dropna()
print(year, len(same_year))

# %% The answer, with the population's standard deviation. NumPy rounds, for a mean may lie halfway in decimal.
print(f"@highest_horsepower_vehicle[{1900 + year}]")
print(f"@average_horsepower[{same_year.mean().round(2)}]")
print(f"@standard_deviation[{same_year.std(ddof=0).round(2)}]")
