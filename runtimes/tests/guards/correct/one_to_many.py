# Deals with their emails.
load_data()
both = deals.merge(emails, left_on="id", right_on="deal_id")
print(len(both))
