# %% I look at the ages.
print(titanic_test["Age"].describe())

# %% The mean age by sex and class.
ages = titanic_test.groupby(["Sex", "Pclass"])["Age"].mean()
print(ages)

# %% The answer.
print(", ".join(f"@average_age_{sex}_class{n}[{ages[sex, n]:.2f}]" for sex in ["male", "female"] for n in [1, 2, 3]))
