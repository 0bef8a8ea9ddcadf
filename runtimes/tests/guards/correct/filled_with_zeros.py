# Numbers get the width of the text.
load_data()
deals["ref"] = deals["id"].astype(str).str.zfill(4)
both = deals.merge(stakeholders, left_on="ref", right_on="deal_ref")
print(len(both))
