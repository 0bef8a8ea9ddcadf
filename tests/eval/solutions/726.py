# %% How many values are missing?
import pandas as pd

power = pd.to_numeric(auto_mpg["horsepower"], errors="coerce")
print(power.isna().sum())

# %% Fill with the mean, then the natural logarithm.
import numpy as np

transformed = np.log(power.fillna(power.mean()))
print(transformed.describe())

# %% The answer.
print(f"@mean_transformed_horsepower[{transformed.mean():.2f}]")
print(f"@stddev_transformed_horsepower[{transformed.std():.2f}]")
