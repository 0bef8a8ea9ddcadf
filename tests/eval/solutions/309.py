# %% What is known of both?
age, fare = titanic["Age"].dropna(), titanic["Fare"].dropna()
print(len(age), len(fare))

# %% Shape by SciPy, and how many lie within one standard deviation.
from scipy import stats


def describe(column):
    near = column.between(column.mean() - column.std(), column.mean() + column.std())
    return stats.skew(column), stats.kurtosis(column), near.sum()


found = {"age": describe(age), "fare": describe(fare)}

# %% The answer.
for name, (skewness, kurtosis, near) in found.items():
    print(f"@{name}_skewness[{skewness:.2f}]")
    print(f"@{name}_kurtosis[{kurtosis:.2f}]")
    print(f"@{name}_values_within_one_stdev[{near}]")
