# %% I look at the table.
import pandas as pd

calls = data_20170413_000000_group_statistics.rename(columns=str.strip)
calls["timestamp"] = pd.to_datetime(calls["timestamp"].astype(str).str.split().str.join(" "), format="mixed")
print(calls.dtypes)

# %% Everything else becomes a feature: the moment and the times in seconds.
from sklearn.linear_model import LinearRegression

features = calls.drop(columns="avg. num. agents staffed")
features["timestamp"] = (features["timestamp"] - features["timestamp"].min()).dt.total_seconds()
for name in ["avg. wait time", "avg. abandonment time"]:
    features[name] = pd.to_timedelta(features[name]).dt.total_seconds()
model = LinearRegression().fit(features, calls["avg. num. agents staffed"])

# %% The prediction for noon.
noon = calls["timestamp"] == pd.Timestamp("2017-04-13 12:00:00")
predicted = model.predict(features[noon])[0]
print(predicted)
print(f"@predicted_agents[{round(predicted)}]")
