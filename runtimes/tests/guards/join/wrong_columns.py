# The company's number is taken for the deal's.
# finds: empty-join
load_data()
both = deals.merge(emails, left_on="id", right_on="company_id")
print(len(both), "deals with email activity")
