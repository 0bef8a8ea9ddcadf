# The last month of the data, by its own dates.
load_data()
last = deals["created_at"].max()
same = deals[(deals["created_at"].dt.year == last.year) & (deals["created_at"].dt.month == last.month)]
print(len(same))
