# %% I look at the two columns.
pairs = hotel_data[["review_count", "bubble_score"]].dropna()
print(pairs.describe())

# %% Pearson's r.
print(f"@correlation_coefficient[{pairs['review_count'].corr(pairs['bubble_score']):.3f}]")
