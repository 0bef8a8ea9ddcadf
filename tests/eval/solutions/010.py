# %% I look at the quantities.
print(GODREJIND["Total Traded Quantity"].describe())

# %% Shapiro-Wilk.
from scipy import stats

statistic, p = stats.shapiro(GODREJIND["Total Traded Quantity"])
print(f"@is_normal[{'no' if p < 0.05 else 'yes'}]")
