# Lookup dictionaries, as the rules ask for.
load_data()
by_id = {deal["id"]: deal for deal in deals.to_dict("records")}
total = sum(by_id[row["deal_id"]]["amount"] for row in emails.to_dict("records") if row["deal_id"] in by_id)
print(round(total, 2))
