# %% I look at the column.
time = imp_score_ldlr_metabolome["row retention time"]
print(time.describe())

# %% Z-scores beyond 3.
z = (time - time.mean()) / time.std()
kept = time[~(z.abs() > 3)]
print(f"@removed_outliers_count[{len(time) - len(kept)}]")
