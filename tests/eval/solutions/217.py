# %% I look at the largest values.
sites = ferret_Pitt_2_preinf_lib2_100_sitediffsel
print(sites.nlargest(3, "positive_diffsel"))

# %% Every site that reaches the maximum.
best = sites.loc[sites["positive_diffsel"] == sites["positive_diffsel"].max(), "site"]
print(f"@site_identifier[{','.join(best.astype(str))}]")
