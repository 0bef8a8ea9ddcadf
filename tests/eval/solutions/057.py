# %% Behind the numbers stand ranges in brackets.
columns = ["No. of cases", "No. of deaths"]
print(estimated_numbers[columns].head())

# %% The numbers before them.
numbers = estimated_numbers[columns].dropna().astype(str)
numbers = numbers.apply(lambda column: column.str.split("[").str[0].astype("int64"))
r = numbers[columns[0]].corr(numbers[columns[1]])

# %% The answer.
print(f"@correlation_coefficient[{r:.2f}]")
