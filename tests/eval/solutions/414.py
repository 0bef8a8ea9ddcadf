# %% How many ages are known in each class?
print(titanic_train.groupby("Pclass")["Age"].count())

# %% Their means.
ages = titanic_train.groupby("Pclass")["Age"].mean()
for number, name in enumerate(["first", "second", "third"], start=1):
    print(f"@{name}_class_average_age[{ages[number]:.2f}]")
