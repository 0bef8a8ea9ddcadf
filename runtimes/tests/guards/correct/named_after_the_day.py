# A file's name bears the day on which it was written.
load_data()
from datetime import date
import os
name = f"summary-{date.today():%Y-%m-%d}.csv"
deals.groupby("stage")["amount"].sum().to_csv(name)
print(os.path.exists(name))
