# %% Volumes are texts with commas.
import pandas as pd

volume = pd.to_numeric(bitconnect_price["Volume"].astype(str).str.replace(",", ""), errors="coerce")
print(volume.describe())

# %% Z-scores beyond 3.
z = (volume - volume.mean()) / volume.std()
print(f"@outliers_count[{(z.abs() > 3).sum()}]")
