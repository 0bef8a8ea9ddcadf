# %% A scatter plot of both columns.
import matplotlib.pyplot as plt

pairs = YAHOO_BTC_USD_D[["High", "Low"]].dropna()
pairs.plot.scatter(x="High", y="Low")
plt.close()

# %% Pearson's r.
r = pairs["High"].corr(pairs["Low"], method="pearson")
print(f"@correlation_coefficient[{r:.2f}]")
