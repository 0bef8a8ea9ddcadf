# %% I look at the fares.
print(test_ave["Fare"].describe())

# %% The answer.
print(f"@mean_fare[{test_ave['Fare'].mean():.2f}]")
