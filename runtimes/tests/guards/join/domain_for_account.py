# Emails know the account's domain, not its id.
# finds: empty-join
load_data()
import pandas as pd
both = pd.merge(emails, accounts, left_on="account_domain", right_on="account_id")
print(both.groupby("region")["thread_id"].count().to_dict())
