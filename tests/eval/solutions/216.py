# %% I look at the column.
sites = ferret_Pitt_2_preinf_lib2_100_sitediffsel
print(sites["abs_diffsel"].describe())

# %% The answer.
print(f"@mean[{sites['abs_diffsel'].mean():.2f}]")
print(f"@std_dev[{sites['abs_diffsel'].std():.2f}]")
