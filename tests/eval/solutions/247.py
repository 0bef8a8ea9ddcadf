# %% How many players are on each side?
print(baseball_data["indicator_of_free_agency_eligibility"].value_counts(dropna=False))

# %% The mean number of runs of each group.
runs = baseball_data.groupby("indicator_of_free_agency_eligibility")["number_of_runs"].mean()
print(f"@average_runs_by_eligible_for_free_agency[{runs[1]:.2f}]")
print(f"@average_runs_by_not_eligible_for_free_agency[{runs[0]:.2f}]")
