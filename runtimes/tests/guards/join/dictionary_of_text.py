# A dictionary by text is asked for numbers.
# finds: key-mismatch
load_data()
role = dict(zip(stakeholders["deal_ref"], stakeholders["role"]))
deals["champion"] = deals["id"].map(role) == "champion"
print(deals["champion"].sum())
