# %% I look at the column.
print(cost_data_with_errors["max_sust_wind"].describe())

# %% Nulls only.
print(f"@missing_values_count[{cost_data_with_errors['max_sust_wind'].isna().sum()}]")
