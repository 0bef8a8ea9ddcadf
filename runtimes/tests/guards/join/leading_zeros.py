# Made text, but 7 is not 0007.
# finds: key-mismatch
load_data()
deals["ref"] = deals["id"].astype(str)
both = deals.merge(stakeholders, left_on="ref", right_on="deal_ref")
print(len(both), "stakeholders")
