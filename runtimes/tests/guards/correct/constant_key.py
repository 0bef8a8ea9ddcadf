# The old way of writing a cross join.
load_data()
left, right = owners.assign(one=1), calendar.assign(one=1)
print(len(left.merge(right, on="one")))
