# %% Two classes, divided by the mean.
sites = ferret_Pitt_2_preinf_lib2_100_sitediffsel
is_high = (sites["positive_diffsel"] > sites["positive_diffsel"].mean()).astype(int)
print(is_high.value_counts())

# %% 80 to 20 with seed 42; the value itself is the feature.
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

features_train, features_test, train, test = train_test_split(
    sites[["positive_diffsel"]], is_high, test_size=0.2, random_state=42
)
model = LogisticRegression(solver="liblinear", random_state=42).fit(features_train, train)

# %% The answer.
print(f"@accuracy_score[{model.score(features_test, test):.2f}]")
