# A directory without repetitions.
load_data()
directory = owners.drop_duplicates("email")
both = deals.merge(directory, left_on="owner_email", right_on="email", how="left")
print(len(both) == len(deals))
