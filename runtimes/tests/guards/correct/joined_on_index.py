# Totals by deal, beside the deal.
load_data()
totals = activities.groupby("deal_id")["minutes"].sum()
print(deals.join(totals, on="id")["minutes"].sum())
