# %% How many hotels have which rating?
print(hotel_data["star_rating"].value_counts())

# %% Exactly five stars.
print(f"@total_hotels[{(hotel_data['star_rating'] == 5).sum()}]")
