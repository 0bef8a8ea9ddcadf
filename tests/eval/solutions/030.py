# %% I look at what the model gets.
complete = insurance[["age", "bmi", "charges"]].dropna()
print(complete.describe())

# %% 80 to 20 with seed 42.
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

features_train, features_test, train, test = train_test_split(
    complete[["age", "bmi"]], complete["charges"], test_size=0.2, random_state=42
)
model = LinearRegression().fit(features_train, train)
rmse = mean_squared_error(test, model.predict(features_test)) ** 0.5

# %% The answer.
print(f"@model_rmse[{rmse:.2f}]")
