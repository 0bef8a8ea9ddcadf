# %% How much is missing?
missing = estimated_numbers[["No. of cases_min", "No. of deaths_max"]].isna().mean() * 100
print(missing)

# %% The answer.
print(f"@percentage_cases_min[{missing.iloc[0]:.2f}], @percentage_deaths_max[{missing.iloc[1]:.2f}]")
