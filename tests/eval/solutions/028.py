# %% What is missing?
print(insurance.isna().sum())

# %% Complete rows, two columns as 0 and 1, regions as numbers, and the rest between 0 and 1.
from sklearn.preprocessing import MinMaxScaler

clean = insurance.dropna(subset=["age", "sex", "region"]).copy()
clean["sex"] = (clean["sex"] == "male").astype(int)
clean["smoker"] = (clean["smoker"] == "yes").astype(int)
clean["region"] = clean["region"].astype("category").cat.codes
scaled = ["age", "bmi", "children", "charges"]
clean[scaled] = MinMaxScaler().fit_transform(clean[scaled])

# %% The answer.
for name in ["age", "sex", "bmi", "children", "smoker", "region", "charges"]:
    print(f"@mean_{name}[{clean[name].mean():.4f}]")
