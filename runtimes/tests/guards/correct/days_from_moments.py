# Moments are made days before they meet days.
load_data()
activities["day"] = activities["at"].dt.normalize()
print(activities.merge(calendar, on="day", how="left")["workday"].sum())
