# %% I look at the two columns.
sites = ferret_Pitt_2_preinf_lib2_100_sitediffsel
print(sites[["positive_diffsel", "negative_diffsel"]].describe())

# %% Pearson's r.
print(f"@correlation_coefficient[{sites['positive_diffsel'].corr(sites['negative_diffsel']):.2f}]")
