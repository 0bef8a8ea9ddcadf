# Two dates of the data.
load_data()
deals["cycle"] = (deals["close_date"] - deals["created_at"]).dt.days
print(int(deals["cycle"].median()), (deals["close_date"] < deals["created_at"]).sum())
