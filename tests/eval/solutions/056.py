# %% Behind the number stands a range in brackets.
print(estimated_numbers["No. of deaths"].head())

# %% The row with the most deaths.
deaths = estimated_numbers["No. of deaths"].dropna().astype(str).str.split("[").str[0].astype("int64")
worst = estimated_numbers.loc[deaths.idxmax()]
print(f"@max_deaths_country[{worst['Country']}] @max_deaths_year[{int(worst['Year'])}]")
