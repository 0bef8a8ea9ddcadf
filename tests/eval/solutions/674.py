# %% I look at what the model gets.
features = my_test_01[["MedInc", "AveRooms", "HouseAge", "Latitude", "Longitude"]]
print(features.describe())

# %% 70 to 30, standardized by what the training set shows, then a tree of depth 5.
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

features_train, features_test, train, test = train_test_split(
    features, my_test_01["MedianHouseValue"], test_size=0.3, random_state=42
)
scaler = StandardScaler().fit(features_train)
tree = DecisionTreeRegressor(max_depth=5, random_state=42).fit(scaler.transform(features_train), train)
predicted = tree.predict(scaler.transform(features_test))

# %% The answer.
from scipy import stats

print(f"@mean_absolute_error[{mean_absolute_error(test, predicted):.4f}]")
print(f"@pearson_coefficient[{stats.pearsonr(test, predicted)[0]:.4f}]")
