# %% I look at the trips, and at how pandas read them.
column = "Trips over the past 24-hours (midnight to 11:59pm)"
print(_2014_q4[column].dtype, _2014_q4[column].isna().sum())

# %% The answer.
trips = _2014_q4[column]
print(f"@mean[{trips.mean():.2f}] @median[{trips.median():.2f}]")
