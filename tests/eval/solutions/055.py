# %% Behind the number stands a range in brackets.
print(estimated_numbers["No. of cases"].head())

# %% The number before it.
cases = estimated_numbers["No. of cases"].dropna().astype(str).str.split("[").str[0].astype("int64")
print(f"@mean_cases[{cases.mean():.0f}]")
