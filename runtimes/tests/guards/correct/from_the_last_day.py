# Ages are counted from where the data ends.
load_data()
as_of = activities["at"].max()
print(int((as_of - deals["created_at"]).dt.days.max()))
