# %% I look at the two columns; what is no number counts as missing.
import pandas as pd

power = pd.to_numeric(auto_mpg["horsepower"], errors="coerce")
print(power.describe(), auto_mpg["weight"].describe())

# %% Power by weight.
ratio = (power / auto_mpg["weight"]).dropna()
print(f"@mean_ratio[{ratio.mean():.2f}]")
print(f"@std_ratio[{ratio.std(ddof=0):.2f}]")
