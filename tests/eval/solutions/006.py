# %% I look at the ages.
print(test_ave["Age"].describe())

# %% Four groups.
import pandas as pd

groups = ["child", "teenager", "adult", "elderly"]
group = pd.cut(test_ave["Age"], [0, 12, 19, 59, float("inf")], labels=groups, include_lowest=True)
fares = test_ave.groupby(group, observed=True)["Fare"].mean()
print(group.value_counts())

# %% The answer.
print(", ".join(f"@mean_fare_{name}[{fares[name]:.2f}]" for name in groups))
