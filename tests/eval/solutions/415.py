# %% Fares of men, by what became of them.
men = titanic_train[titanic_train["Sex"] == "male"]
print(men.groupby("Survived")["Fare"].describe())

# %% An independent t-test.
from scipy import stats

survived, died = (men.loc[men["Survived"] == value, "Fare"] for value in [1, 0])
statistic, p = stats.ttest_ind(survived, died)

# %% The answer.
print(f"@survived_fare_mean[{survived.mean():.2f}]")
print(f"@survived_fare_std[{survived.std():.2f}]")
print(f"@not_survived_fare_mean[{died.mean():.2f}]")
print(f"@not_survived_fare_std[{died.std():.2f}]")
print(f"@fare_difference_significance[{'significant' if p < 0.05 else 'not significant'}]")
