# %% I look at the four fields.
fields = ["Computer Science", "Engineering", "Math and Statistics", "Physical Sciences"]
print(percent_bachelors_degrees_women_usa[["Year", *fields]].tail())

# %% Their sum, from 2000 on: the constraints count 2000 in.
recent = percent_bachelors_degrees_women_usa.query("Year >= 2000")
stem = recent[fields].sum(axis=1)

# %% The answer.
print(f"@mean_STEM[{stem.mean():.2f}]")
print(f"@range_STEM[{stem.max() - stem.min():.2f}]")
