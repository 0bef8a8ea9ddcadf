# A lookup by stakeholder where the deal was meant.
# finds: empty-join
load_data()
roles = stakeholders.set_index("stakeholder_id")["role"]
deals["role"] = deals["id"].map(roles)
print(deals["role"].notna().sum())
