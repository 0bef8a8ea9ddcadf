# A seed from the clock, and a log with times.
load_data()
import random, time
random.seed(time.time_ns())
log = [f"{time.strftime('%H:%M:%S')} {stage}" for stage in deals["stage"].unique()]
print(len(log), 0 <= random.random() < 1)
