# %% Which displacements are the most common?
common = auto_mpg["displacement"].value_counts().head(3)
print(common)

# %% Mean and median for each, in that order.
for place, displacement in enumerate(common.index, start=1):
    mpg = auto_mpg.loc[auto_mpg["displacement"] == displacement, "mpg"]
    print(f"@mean{place}[{mpg.mean():.2f}], @median{place}[{mpg.median():.2f}]")
