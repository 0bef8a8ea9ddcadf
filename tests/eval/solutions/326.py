# %% I look at the times.
print(data_0020200722["WCTIMESTRING"].unique()[:10])

# %% The hour of the day, and its correlation with the type of the event.
import pandas as pd
from scipy import stats

hour = pd.to_datetime(data_0020200722["WCTIMESTRING"], format="%I:%M %p").dt.hour
print(hour.value_counts())
r, p = stats.pearsonr(hour, data_0020200722["EVENTMSGTYPE"])

# %% The answer.
relationship = "positive" if p < 0.05 and r >= 0.5 else "negative" if p < 0.05 and r <= -0.5 else "none"
print(f"@correlation_coefficient[{r:.2f}]")
print(f"@p_value[{p:.4f}]")
print(f"@relationship[{relationship}]")
