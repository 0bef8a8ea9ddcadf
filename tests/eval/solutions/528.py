# %% I look at the quartiles; a missing fare is no outlier.
fare = titanic_test["Fare"]
low, high = fare.quantile([0.25, 0.75])
print(low, high)

# %% Beyond 1.5 interquartile ranges.
reach = 1.5 * (high - low)
ids = titanic_test.loc[(fare < low - reach) | (fare > high + reach), "PassengerId"].sort_values()

# %% The answer.
print(f"@outlier_count[{len(ids)}], @outlier_ids[{', '.join(map(str, ids))}]")
