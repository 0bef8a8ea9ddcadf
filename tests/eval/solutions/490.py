# %% I look at the column.
engineering = percent_bachelors_degrees_women_usa["Engineering"]
print(engineering.describe())

# %% The answer.
print(f"@mean_value[{engineering.mean():.2f}]")
