# %% The size of each family.
size = titanic_train["SibSp"] + titanic_train["Parch"]
print(size.value_counts())

# %% Its mean for both outcomes.
means = size.groupby(titanic_train["Survived"]).mean()
print(f"@mean_familysize_survived[{means[1]:.2f}] @mean_familysize_did_not_survive[{means[0]:.2f}]")
