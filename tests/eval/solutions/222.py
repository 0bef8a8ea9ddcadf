# %% I look at the column.
sites = ferret_Pitt_2_preinf_lib2_100_sitediffsel
print(sites["abs_diffsel"].describe())

# %% Skewness and kurtosis by SciPy.
from scipy import stats

skewness, kurtosis = stats.skew(sites["abs_diffsel"]), stats.kurtosis(sites["abs_diffsel"])
normal = abs(skewness) <= 0.5 and abs(kurtosis) <= 0.5

# %% The answer.
print(f"@skewness_value[{skewness:.2f}] @kurtosis_value[{kurtosis:.2f}]")
print(f"The data is {'' if normal else 'not '}normally distributed.")
