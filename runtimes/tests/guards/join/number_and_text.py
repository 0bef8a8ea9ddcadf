# pandas refuses; the reason is said beside its error.
# finds: key-mismatch
load_data()
try:
    both = deals.merge(stakeholders, left_on="id", right_on="deal_ref")
except ValueError:
    both = deals.head(0)
print(len(both), "stakeholders")
