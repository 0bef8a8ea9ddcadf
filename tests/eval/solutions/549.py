# %% Length against weight.
r = abalone["Length"].corr(abalone["Whole weight"])
print(r)

# %% Two models, without and with the volume; the usual seed, for nobody asks for another.
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split


def rmse(features):
    features_train, features_test, train, test = train_test_split(
        features, abalone["Rings"], test_size=0.3, random_state=42
    )
    model = LinearRegression().fit(features_train, train)
    return mean_squared_error(test, model.predict(features_test)) ** 0.5


measures = abalone.drop(columns=["Sex", "Rings"])
volume = abalone["Length"] * abalone["Diameter"] * abalone["Height"]
without, with_volume = rmse(measures), rmse(measures.assign(volume=volume))

# %% The answer.
print(f"@correlation_coefficient[{r:.4f}], @original_model_rmse[{without:.4f}],")
print(f"@volume_feature_model_rmse[{with_volume:.4f}]")
