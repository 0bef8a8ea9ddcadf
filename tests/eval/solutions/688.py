# %% I compare the Unix timestamps with the readable column beside them.
import pandas as pd

times = pd.to_datetime(ravenna_250715["dt"], unit="s")
print(pd.DataFrame({"dt": times, "day": ravenna_250715["day"]}).head())

# %% The hours of the `dt` column decide; each part of the day begins with its first minute.
labels = ["night", "morning", "afternoon", "evening"]
part = pd.cut(times.dt.hour, [0, 6, 12, 18, 24], right=False, labels=labels)
counts = part.value_counts()
print(counts)

# %% The answer.
print(", ".join(f"@{name}[{counts[name]}]" for name in ["morning", "afternoon", "evening", "night"]))
