# %% Which storms have the highest category?
storms = cost_data_with_errors
print(storms.nlargest(3, "max_storm_cat")[["name", "year", "max_storm_cat", "max_sust_wind"]])

# %% The first of them.
strongest = storms.loc[storms["max_storm_cat"].idxmax()]
print(f"@max_wind_speed[{strongest['max_sust_wind']:.2f}]")
