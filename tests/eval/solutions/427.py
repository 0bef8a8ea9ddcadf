# %% I look at the column.
print(cost_data_with_errors["min_p"].describe())

# %% Nulls only.
print(f"@null_entries_count[{cost_data_with_errors['min_p'].isna().sum()}]")
