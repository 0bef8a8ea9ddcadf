# Half of the addresses match, and the other half would, too.
# finds: key-mismatch
load_data()
directory = owners.drop_duplicates("email")
both = emails.merge(directory, left_on="reply_to", right_on="email")
print(len(both), "of", len(emails))
