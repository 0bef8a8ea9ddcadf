# %% I look at what the model gets.
workers = beauty_and_the_labor_market
columns = "exper looks union goodhlth black female married south bigcity smllcity service educ".split()
print(workers[columns].isna().sum().sum(), "missing")

# %% 70 to 30 with seed 42.
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

features_train, features_test, train, test = train_test_split(
    workers[columns], workers["wage"], test_size=0.3, random_state=42
)
model = LinearRegression().fit(features_train, train)
rmse = mean_squared_error(test, model.predict(features_test)) ** 0.5

# %% The answer.
print(f"@RMSE[{rmse:.2f}]")
