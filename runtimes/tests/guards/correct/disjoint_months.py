# Two halves are put together.
load_data()
january = activities[activities["at"] < "2026-03-01"].groupby("deal_id")["minutes"].sum().rename("before").reset_index()
march = activities[activities["at"] >= "2026-03-01"].groupby("deal_id")["minutes"].sum().rename("after").reset_index()
print(len(january.merge(march, on="deal_id", how="outer")))
