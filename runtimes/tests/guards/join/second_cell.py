# The join stands in a later cell than the loading.
# finds: empty-join
load_data()
# %%
open_deals = deals[deals["stage"] == "open"]
# %%
merged = open_deals.merge(stakeholders, left_on="id", right_on="stakeholder_id")
print(merged["amount"].sum())
