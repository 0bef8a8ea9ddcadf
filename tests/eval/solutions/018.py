# %% I look at the column, and for missing values.
print(unemployement_industry["Mar.2019"].describe(), unemployement_industry.isna().sum().sum())

# %% Rows with missing values go first, then what is beyond 1.5 interquartile ranges.
column = unemployement_industry["Mar.2019"].dropna()
low, high = column.quantile([0.25, 0.75])
reach = 1.5 * (high - low)
kept = column[column.between(low - reach, high + reach)]
print(len(column), "rows,", len(kept), "kept")

# %% The answer.
print(f"@mean_mar_2019[{kept.mean():.2f}] @sd_mar_2019[{kept.std():.2f}]")
