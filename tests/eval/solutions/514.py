# %% Each city, and all hotels together.
cities = hotel_data.groupby("city_name")["review_count"].mean()
overall = hotel_data["review_count"].mean()
print(cities, overall)

# %% More than twice as many, or less than half.
higher, lower = (cities > 2 * overall).sum(), (cities < overall / 2).sum()
print(f"@higher_city_count[{higher}], @lower_city_count[{lower}]")
