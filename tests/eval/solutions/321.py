# %% Besides numbers the column has words.
print(data_0020200722["SCOREMARGIN"].unique())

# %% What is no number is ignored.
import pandas as pd

margin = pd.to_numeric(data_0020200722["SCOREMARGIN"], errors="coerce").dropna()
low, high = margin.quantile([0.25, 0.75])
reach = 1.5 * (high - low)
outliers = margin[(margin < low - reach) | (margin > high + reach)]

# %% The answer.
print(f"@outlier_count[{len(outliers)}]")
