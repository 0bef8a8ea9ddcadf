# Addresses are written in their own way by every mail program.
# finds: key-mismatch
load_data()
directory = owners.drop_duplicates("email")
both = emails.merge(directory, left_on="sender", right_on="email", how="left")
print(both["team"].value_counts().to_dict())
