# %% I look at the incomes.
print(my_test_01["MedInc"].describe())

# %% Shapiro-Wilk.
from scipy import stats

statistic, p = stats.shapiro(my_test_01["MedInc"])
print(f"@p_value[{p:.4f}], @distribution_type[{'normal' if p > 0.05 else 'not normal'}]")
