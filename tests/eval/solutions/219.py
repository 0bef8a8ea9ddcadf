# %% I look at the quartiles.
sites = ferret_Pitt_2_preinf_lib2_100_sitediffsel
low, high = sites["abs_diffsel"].quantile([0.25, 0.75])
print(low, high)

# %% Beyond 1.5 interquartile ranges.
reach = 1.5 * (high - low)
outliers = sites[(sites["abs_diffsel"] < low - reach) | (sites["abs_diffsel"] > high + reach)]
print(outliers)

# %% The answer.
values = ",".join(f"{value:.2f}" for value in outliers["abs_diffsel"])
print(f"@site_identifiers[{','.join(outliers['site'].astype(str))}] @outlier_values[{values}]")
