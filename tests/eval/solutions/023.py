# %% I look at the two levels; some rows are headings and have none.
levels = unemployement_industry[["Mar.2019", "Mar.2020"]]
print(levels.isna().sum())

# %% Complete rows, 70 to 30 with seed 42, then a line through the training set.
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

complete = levels.dropna()
past_train, past_test, train, test = train_test_split(
    complete[["Mar.2019"]], complete["Mar.2020"], test_size=0.3, random_state=42
)
model = LinearRegression().fit(past_train, train)
error = mean_squared_error(test, model.predict(past_test))

# %% The answer.
print(f"@Mean_Squared_Error[{error:.2f}]")
