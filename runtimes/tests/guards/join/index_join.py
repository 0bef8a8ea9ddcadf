# Joined on the index, but that holds other numbers.
# finds: empty-join
load_data()
both = deals.set_index("id").join(emails.set_index("company_id"), how="inner", rsuffix="_email")
print(len(both))
