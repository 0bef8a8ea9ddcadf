# Domains that are in one list only differ by more than their form.
load_data()
import pandas as pd
partners = pd.DataFrame({"domain": ["acme1.example", "acme2.example", "other.example", "third.example"], "partner": [1, 2, 3, 4]})
both = accounts.merge(partners, on="domain", how="outer")
print(both["partner"].notna().sum())
