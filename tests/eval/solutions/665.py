# %% What is missing?
prices = YAHOO_BTC_USD_D.copy()
print(prices.isna().sum())

# %% Means for what is missing, then three categories by the quartiles.
import numpy as np

numbers = prices.select_dtypes("number").columns
prices[numbers] = prices[numbers].fillna(prices[numbers].mean())
low, high = prices["Close"].quantile([0.25, 0.75])
names = ["high", "low"]
category = np.select([prices["Close"] >= high, prices["Close"] <= low], names, default="medium")
counts = {name: int((category == name).sum()) for name in ["high", "medium", "low"]}

# %% The answer.
for name, count in counts.items():
    print(f"@{name}_count[{count}] @{name}_proportion[{count / len(prices):.2f}]")
