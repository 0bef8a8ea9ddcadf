# %% Brands with at least 10 hotels; the table writes `None` where a hotel has no brand.
branded = hotel_data[hotel_data["brand_name"].notna() & (hotel_data["brand_name"] != "None")]
sizes = branded["brand_name"].value_counts()
print(sizes[sizes >= 10])

# %% Their mean rating, over hotels with a rating and at least 100 reviews; of equals, the largest brand.
known = branded[branded["star_rating"].notna() & (branded["review_count"] >= 100)]
ratings = known.groupby("brand_name")["star_rating"].mean()
ranking = ratings.to_frame("rating").assign(hotels=sizes).query("hotels >= 10")
ranking = ranking.sort_values(["rating", "hotels"], ascending=False)
print(ranking)

# %% The answer.
print(f"@brand_with_highest_average_star_rating[{ranking.index[0]}]")
