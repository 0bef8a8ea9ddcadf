# A report says when it was made.
load_data()
from datetime import datetime
report = {"generated": datetime.now().isoformat(), "deals": len(deals), "total": float(deals["amount"].sum())}
print(report["deals"], report["total"])
