# %% I look at the reviews.
print(hotel_data["review_count"].describe())

# %% The answer.
print(f"@average_reviews[{hotel_data['review_count'].mean():.2f}]")
