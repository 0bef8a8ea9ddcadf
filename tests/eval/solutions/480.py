# %% I look at the values.
value = oecd_education_spending["Value"]
print(value.describe())

# %% The new feature is the distance from the mean.
centred = value - value.mean()
print(f"@standard_deviation[{centred.std():.2f}]")
