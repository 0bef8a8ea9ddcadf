# %% I look at the index.
print(insurance["bmi"].describe())

# %% Symmetric enough?
skewness = insurance["bmi"].skew()
print(f"@bmi_distribution[{'normal' if abs(skewness) < 0.5 else 'not_normal'}]")
