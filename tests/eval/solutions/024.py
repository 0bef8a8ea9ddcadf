# %% I look at the ages.
print(insurance["age"].describe())

# %% The answer.
print(f"@mean_age[{insurance['age'].dropna().mean():.2f}]")
