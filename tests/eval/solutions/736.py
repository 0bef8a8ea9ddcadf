# %% What countries produce: people times what each of them produces.
product = gapminder_cleaned["pop"] * gapminder_cleaned["gdppercap"]
print(product.describe())

# %% Between 0 and 1, then Shapiro-Wilk.
from scipy import stats

scaled = (product - product.min()) / (product.max() - product.min())
statistic, p = stats.shapiro(scaled)
print(f"@is_normal[{'yes' if p > 0.05 else 'no'}]")
