# %% The title is the word before the dot.
title = titanic["Name"].str.extract(r"(\S+)\.")[0]
title = title.where(title.isin(["Mr", "Mrs", "Miss"]), "Other")
print(title.value_counts())

# %% Chi-square of titles against classes.
import pandas as pd
from scipy import stats

table = pd.crosstab(title, titanic["Pclass"])
statistic, p, freedom, expected = stats.chi2_contingency(table)
print(table, freedom)

# %% The answer.
print(f"@chi_square_statistic[{statistic:.2f}]")
print(f"@p_value[{p:.4f}]")
