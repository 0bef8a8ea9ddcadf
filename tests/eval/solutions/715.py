# %% I look at the column.
column = Current_Logan["Unnamed: 8"]
print(column.dropna())

# %% The share of NaN in it.
percentage = column.isna().mean() * 100
print(f"@missing_percentage[{percentage:.2f}]")
