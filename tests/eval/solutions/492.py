# %% I take the row of 2010.
year = percent_bachelors_degrees_women_usa.set_index("Year").loc[2010]
print(year.sort_values(ascending=False).head())

# %% Every field that reaches the maximum.
fields = year.index[year == year.max()]
print(f"@fields[{', '.join(fields)}]")
