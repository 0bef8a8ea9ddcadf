# %% Volumes are texts with commas.
import pandas as pd

volume = pd.to_numeric(bitconnect_price["Volume"].astype(str).str.replace(",", ""), errors="coerce")
print(volume.describe())

# %% Volatility, and its correlation with the volume.
volatility = (bitconnect_price["High"] - bitconnect_price["Low"]) / bitconnect_price["Open"]
r = volatility.corr(volume)
kind = "positive" if r >= 0.5 else "negative" if r <= -0.5 else "none"

# %% The answer.
print(f"@correlation_coefficient[{r:.2f}], @relationship_type[{kind}]")
