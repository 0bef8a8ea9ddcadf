# %% I look at the dates.
budget = city_departments_in_current_budget
print(budget[["budget_year_start", "budget_year_end"]].drop_duplicates())

# %% The duration in days is the difference.
import pandas as pd

duration = pd.to_datetime(budget["budget_year_end"]) - pd.to_datetime(budget["budget_year_start"])
days = duration.dt.days.mean()

# %% The answer.
print(f"@average_duration[{round(days)}]")
