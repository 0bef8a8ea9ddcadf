# %% I look at the trips, and at how pandas read them.
column = "Trips over the past 24-hours (midnight to 11:59pm)"
print(data_2014_q4[column].dtype, data_2014_q4[column].isna().sum())

# %% The answer.
trips = data_2014_q4[column]
print(f"@mean[{trips.mean():.2f}] @median[{trips.median():.2f}]")
