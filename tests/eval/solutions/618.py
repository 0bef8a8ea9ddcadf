# %% I look at the two columns.
visits = traj_Osak
print(visits[["#photo", "poiDuration"]].describe())

# %% Pearson's r.
print(f"@correlation[{visits['#photo'].corr(visits['poiDuration']):.3f}]")
