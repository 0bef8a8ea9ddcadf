# %% I look at the two columns.
print(insurance[["charges", "children"]].describe())

# %% Pearson's r.
print(f"@correlation_coefficient[{insurance['charges'].corr(insurance['children']):.2f}]")
