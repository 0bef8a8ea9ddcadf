# %% Month and year come out of the dates.
import pandas as pd

month = pd.to_datetime(microsoft["Date"], format="%d-%b-%y").dt.to_period("M")
print(month.min(), month.max())

# %% The mean of each month; of equals, the latest.
means = microsoft["Close"].groupby(month).mean().sort_index(ascending=False)
best = means.idxmax()
print(means.head())

# %% The answer.
print(f"@Highest_Monthly_Average_Close_Price[{best.month}, {best.year}, {means[best]:.2f}]")
