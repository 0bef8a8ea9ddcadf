# %% I look at the two columns.
trips = data_2014_q4["Trips over the past 24-hours (midnight to 11:59pm)"]
members = data_2014_q4["Total Annual Memberships Sold"]
print(trips.head(), members.head(), (members == 0).sum())

# %% Trips per membership; a division by zero would count as zero.
import numpy as np

ratio = (trips / members).replace([np.inf, -np.inf], 0)
print(ratio.describe())

# %% The answer.
print(f"@trips_per_membership_mean[{ratio.mean():.2f}], @trips_per_membership_median[{ratio.median():.2f}],")
print(f"@trips_per_day_mean[{trips.mean():.2f}], @trips_per_day_median[{trips.median():.2f}]")
