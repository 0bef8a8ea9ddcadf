# %% The average fare.
average = titanic["Fare"].mean()
print(average)

# %% Men who survived and paid more.
chosen = titanic[(titanic["Sex"] == "male") & (titanic["Survived"] == 1) & (titanic["Fare"] > average)]
print(len(chosen), "men,", chosen["Age"].notna().sum(), "with an age")
print(f"@median_age[{chosen['Age'].median():.2f}]")
