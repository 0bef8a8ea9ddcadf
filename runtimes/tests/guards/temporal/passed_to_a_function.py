# The clock is read outside and passed in.
# finds: clock
load_data()
import datetime

def is_overdue(due, reference):
    return due < reference

now = datetime.datetime.now()
print(sum(is_overdue(due, now) for due in deals["close_date"]) > 0)
