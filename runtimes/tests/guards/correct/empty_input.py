# Nothing joined with something is nothing.
load_data()
huge = deals[deals["amount"] > 1e9]
print(len(huge.merge(emails, left_on="id", right_on="deal_id")))
