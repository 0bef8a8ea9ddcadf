# %% Volumes are texts with commas.
import pandas as pd

volume = pd.to_numeric(bitconnect_price["Volume"].astype(str).str.replace(",", ""), errors="coerce")
print(volume.isna().sum(), "missing")

# %% The answer.
print(f"@mean_volume[{volume.mean():.2f}] @median_volume[{volume.median():.2f}]")
