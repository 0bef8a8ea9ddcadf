# %% I look at the column.
print(test_x["IsAlone"].value_counts())

# %% One of each kind of relative is assumed for everyone.
size = test_x["IsAlone"] + 1 + 1
print(f"@average_familysize[{size.mean():.1f}]")
