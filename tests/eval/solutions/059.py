# %% The countries that the table counts among the Americas.
americas = estimated_numbers[estimated_numbers["WHO Region"] == "Americas"]
print(sorted(americas["Country"].unique()))

# %% The mean number of cases of each, over the years that have one.
cases = americas["No. of cases"].dropna().astype(str).str.split("[").str[0].astype("int64")
means = cases.groupby(americas["Country"]).mean().sort_values(ascending=False)
print(means.head())

# %% The answer.
print(f"@country_name[{means.idxmax()}]")
