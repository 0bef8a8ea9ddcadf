# %% I look at the trips.
trips = data_2014_q4["Trips over the past 24-hours (midnight to 11:59pm)"]
print(trips.describe())

# %% Normality, skewness and kurtosis, all with SciPy.
from scipy import stats

w, p = stats.shapiro(trips)
skewness, kurtosis = stats.skew(trips), stats.kurtosis(trips)
print("normal" if p >= 0.05 else "not normal")

# %% The answer.
print(f"@shapiro_w[{w:.4f}], @p_value[{p:.4f}], @skewness[{skewness:.4f}], @kurtosis[{kurtosis:.4f}]")
