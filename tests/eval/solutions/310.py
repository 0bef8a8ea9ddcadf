# %% All pairs of the four variables.
r = titanic[["Age", "Fare", "SibSp", "Parch"]].corr()
print(r)

# %% The largest, besides a variable with itself.
pairs = r.stack()
pairs = pairs[[first != second for first, second in pairs.index]]
best = pairs.idxmax()
print(f"@strongest_correlation_pair[{', '.join(best)}]")
print(f"@strongest_correlation_coefficient[{pairs[best]:.2f}]")
