# %% The ages of those who died, by sex.
dead = titanic_train[titanic_train["Survived"] == 0].dropna(subset=["Age"])
male, female = (dead.loc[dead["Sex"] == sex, "Age"] for sex in ["male", "female"])
print(male.describe(), female.describe())

# %% Where are the kernel densities highest?
import numpy as np
from scipy import stats

ages = np.arange(0, 80)
for sex, group in [("male", male), ("female", female)]:
    print(sex, "most dense at", ages[stats.gaussian_kde(group)(ages).argmax()])

# %% A two-sample Kolmogorov-Smirnov test compares them.
statistic, p = stats.ks_2samp(male, female)
print(f"@is_significantly_different[{bool(p < 0.05)}]")
