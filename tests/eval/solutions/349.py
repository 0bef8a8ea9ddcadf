# %% I look at the ages, which are bands here.
print(test_x["Age"].describe())

# %% The answer.
print(f"@mean_age[{test_x['Age'].mean():.2f}]")
