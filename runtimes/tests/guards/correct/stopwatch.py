# How long did that take?
load_data()
import time
started = time.time()
total = sum(row.amount for row in deals.itertuples())
elapsed = time.time() - started
print(total, elapsed < 60)
