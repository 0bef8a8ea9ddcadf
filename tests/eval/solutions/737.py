# %% I look at the incomes.
print(Credit["Income"].describe())

# %% The answer.
print(f"@mean_income[{Credit['Income'].mean():.2f}], @std_dev_income[{Credit['Income'].std():.2f}]")
