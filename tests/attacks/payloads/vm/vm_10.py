# args: [seconds=6]
# VM-10: timers and interrupts without end: each one makes the monitor work for the machine.
import os
import signal
import sys
import time

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 6
ticks = 0


def tick(*_):
    global ticks
    ticks += 1


def storm():
    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 0.00005, 0.00005)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.000001)
        os.sched_yield()
    signal.setitimer(signal.ITIMER_REAL, 0)


children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        storm()
        os._exit(0 if ticks > 10 else 1)
    children.append(child)
ends = [os.waitpid(child, 0)[1] for child in children]
if any(ends):
    print("NOTE unstaged: too few timers fired", ends)
else:
    print("HELD", f"{len(ends)} processes of timers for {seconds} s; the neighbour decides", flush=True)
