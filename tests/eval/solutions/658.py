# %% I look at the volumes.
volume = YAHOO_BTC_USD_D["Volume"].dropna()
print(volume.describe())

# %% Kolmogorov-Smirnov against the normal distribution with this mean and deviation.
from scipy import stats

statistic, p = stats.kstest(volume, stats.norm(volume.mean(), volume.std()).cdf)
print(f"@result_ks_test[{'not_normal' if p < 0.05 else 'normal'}]")
