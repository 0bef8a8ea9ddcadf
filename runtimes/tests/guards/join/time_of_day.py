# Moments are joined with days.
# finds: key-mismatch
load_data()
both = activities.merge(calendar, left_on="at", right_on="day")
print(both["workday"].mean())
