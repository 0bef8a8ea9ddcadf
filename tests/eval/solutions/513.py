# %% Hotels that have all three values.
rated = hotel_data[["star_rating", "review_count", "bubble_score"]].dropna()
print(rated.groupby("star_rating").mean())

# %% Three groups by stars.
stars = rated["star_rating"]
groups = {"below3": stars < 3, "between3and4": stars.between(3, 4), "above4": stars > 4}
r = {name: rated.loc[rows, "review_count"].corr(rated.loc[rows, "bubble_score"]) for name, rows in groups.items()}

# %% The answer.
print(", ".join(f"@{name}_correlation[{value:.2f}]" for name, value in r.items()))
