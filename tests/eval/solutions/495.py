# %% I look at the field over the years.
share = percent_bachelors_degrees_women_usa.set_index("Year")["Architecture"]
print(share.describe())

# %% Z-scores with a threshold of 3.
z = (share - share.mean()) / share.std()
outliers = share[z.abs() > 3]
kept = share[z.abs() <= 3]

# %% The answer.
print(f"@outlier_years[{', '.join(map(str, sorted(outliers.index)))}]")
print(f"@mean_without_outliers[{kept.mean():.2f}]")
print(f"@std_without_outliers[{kept.std():.2f}]")
