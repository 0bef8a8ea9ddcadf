# %% I look at the column.
print(gapminder_cleaned["gdppercap"].describe())

# %% Its logarithm to base 10.
import numpy as np

feature = np.log10(gapminder_cleaned["gdppercap"])
print(f"@has_nan_values_in_new_feature[{bool(feature.isna().any())}]")
print(f"@new_feature_mean[{feature.mean():.2f}]")
print(f"@new_feature_std[{feature.std():.2f}]")
