# A difference in months.
# finds: clock
load_data()
from datetime import date
from dateutil.relativedelta import relativedelta
months = [relativedelta(date.today(), created.date()).months for created in deals["created_at"]]
print(len(months))
