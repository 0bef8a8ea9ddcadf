# Seconds against seconds.
# finds: clock
load_data()
import time
fresh = emails[emails["sent_epoch"] > time.time() - 7 * 86400]
print(len(fresh))
