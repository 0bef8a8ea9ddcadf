# %% What is missing?
measures = abalone.drop(columns=["Sex", "Rings"])
print(measures.isna().sum())

# %% Medians for what is missing, then every measure between 0 and 1.
import pandas as pd
from sklearn.preprocessing import MinMaxScaler

filled = measures.fillna(measures.median())
scaler = MinMaxScaler()
scaled = pd.DataFrame(scaler.fit_transform(filled), columns=measures.columns)
low, high = scaled.min().min(), scaled.max().max()

# %% All of them have to look normal.
shape = pd.DataFrame({"skewness": scaled.skew(), "kurtosis": scaled.kurt()})
print(shape)
normal = (shape["skewness"].between(-0.5, 0.5) & shape["kurtosis"].between(-2, 2)).all()

# %% The answer, in quotes as the format has them.
handled = '"No"' if filled.isna().any().any() else '"Yes"'
scale = f'"{low:.0f}-{high:.0f}"'
kind = '"Normal"' if normal else '"Non-Normal"'
print(f"@missing_values_handled[{handled}], @min_max_scaler_scale[{scale}], @distribution_type[{kind}]")
