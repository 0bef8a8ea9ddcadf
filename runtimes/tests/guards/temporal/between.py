# A week that ends now.
# finds: clock
load_data()
import pandas as pd
end = pd.Timestamp.now()
week = activities[activities["at"].between(end - pd.Timedelta(weeks=1), end)]
print(week["minutes"].sum())
