# %% What is missing?
print(titanic[["Embarked", "Fare", "Sex"]].isna().sum())

# %% The mode for ports, fares between 0 and 1, and men as 1.
clean = titanic.copy()
clean["Embarked"] = clean["Embarked"].fillna(clean["Embarked"].mode()[0])
low, high = clean["Fare"].min(), clean["Fare"].max()
clean["Fare"] = (clean["Fare"] - low) / (high - low)
clean["Sex"] = clean["Sex"].map({"male": 1, "female": 0})

# %% The answer.
counts, fare = clean["Sex"].value_counts(), clean["Fare"]
print(f"@sex_encoded_count[{counts[0]}, {counts[1]}]")
print(f"@fare_after_scaling[{fare.min():.2f}, {fare.max():.2f}, {fare.mean():.4f}]")
