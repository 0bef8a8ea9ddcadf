# %% Missing values of each column.
missing = data_0020200722.isna().sum()
print(missing)

# %% The largest.
print(f"@max_missing_values[{missing.idxmax()}]")
