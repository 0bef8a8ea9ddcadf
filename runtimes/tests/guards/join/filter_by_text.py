# A filter that can never be true.
# finds: key-mismatch
load_data()
covered = deals[deals["id"].isin(stakeholders["deal_ref"])]
print(len(covered), "deals have stakeholders")
