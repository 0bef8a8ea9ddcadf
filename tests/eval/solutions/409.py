# %% I look at the cabins.
print(titanic_train["Cabin"].value_counts(dropna=False).head())

# %% The answer.
print(f"@missing_values[{titanic_train['Cabin'].isna().sum()}]")
