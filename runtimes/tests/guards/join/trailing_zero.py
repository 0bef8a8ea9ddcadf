# Numbers with gaps were floats before they became text.
# finds: key-mismatch
load_data()
deals["ref"] = deals["id"].astype(float).astype(str)
emails["ref"] = emails["deal_id"].astype(str)
both = deals.merge(emails, on="ref")
print(len(both))
