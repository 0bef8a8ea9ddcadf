# %% I look at the columns.
print(test_ave[["SibSp", "Parch", "Fare"]].describe())

# %% The size of the family, and its correlation with the fare.
size = test_ave["SibSp"] + test_ave["Parch"]
print(f"@correlation_coefficient[{size.corr(test_ave['Fare']):.2f}]")
