# %% The size of each family.
size = titanic["SibSp"] + titanic["Parch"]
print(size.describe())

# %% Its correlation with survival.
print(f"@correlation_coefficient[{size.corr(titanic['Survived']):.2f}]")
