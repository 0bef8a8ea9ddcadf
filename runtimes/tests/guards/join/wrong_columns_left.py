# A left join keeps every deal, so nothing looks wrong but the gaps.
# finds: empty-join
load_data()
both = deals.merge(emails, left_on="id", right_on="company_id", how="left")
print(both["thread_id"].notna().sum(), "deals with email activity")
