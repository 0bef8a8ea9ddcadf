# %% Which of the columns have gaps, and are they numbers?
trips = "Trips over the past 24-hours (midnight to 11:59pm)"
passes = [name for name in data_2014_q4.columns if "Passes Purchased" in name]
print(data_2014_q4[[trips, *passes]].isna().sum(), data_2014_q4[passes].dtypes)

# %% The trips before and after the passes are filled with their means.
import pandas as pd
from scipy import stats


def describe(column):
    return {
        "mean": column.mean(),
        "median": column.median(),
        "sd": column.std(),
        "skewness": stats.skew(column),
        "kurtosis": stats.kurtosis(column),
    }


filled = data_2014_q4.copy()
for name in passes:
    numbers = pd.to_numeric(filled[name].astype(str).str.replace(",", ""), errors="coerce")
    filled[name] = numbers.fillna(numbers.mean())
found = {"pre": describe(data_2014_q4[trips]), "post": describe(filled[trips])}

# %% The answer: filling other columns leaves the trips as they were.
for when, values in found.items():
    for name, value in values.items():
        print(f"@{when}_{name}[{value:.2f}]")
