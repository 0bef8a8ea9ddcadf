# %% Fares by class.
print(titanic.groupby("Pclass")["Fare"].describe())

# %% Z-scores within each class.
fares = titanic.groupby("Pclass")["Fare"]
z = (titanic["Fare"] - fares.transform("mean")) / fares.transform("std")
counts = (z.abs() > 3).groupby(titanic["Pclass"]).sum()

# %% The answer.
print(", ".join(f"@class{number}_outliers[{counts[number]}]" for number in [1, 2, 3]))
