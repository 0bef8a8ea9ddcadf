# %% I look at what the model gets.
print(auto_mpg[["mpg", "weight", "acceleration"]].describe())

# %% 8:2 with seed 42.
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

features = auto_mpg[["weight", "acceleration"]]
features_train, features_test, train, test = train_test_split(features, auto_mpg["mpg"], test_size=0.2, random_state=42)
model = LinearRegression().fit(features_train, train)
error = mean_squared_error(test, model.predict(features_test))

# %% The answer.
print(f"@test_mse[{error:.2f}]")
