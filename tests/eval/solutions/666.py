# %% I look at the values.
value = my_test_01["MedianHouseValue"]
print(value.describe())

# %% The answer.
print(f"@mean_value[{value.mean():.4f}], @std_dev[{value.std():.4f}]")
