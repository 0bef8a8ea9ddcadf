# Lists what came along from the zygote. With "more" it adds some by itself.
import os, re, signal, sys, threading

if "more" in sys.argv:
    leaked = os.open("/etc/passwd", os.O_RDONLY)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000)
with open("/proc/self/status") as file:
    status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
for name in ("Threads", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp", "CapEff", "CapBnd"):
    print("GOLDEN", name, status[name].strip())
for number in sorted(int(name) for name in os.listdir("/proc/self/fd")):
    try:
        target = re.sub(r"\d+", "N", os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        continue
    print("GOLDEN descriptor", number, target)
with open("/proc/self/maps") as file:
    lines = file.read().splitlines()
for line in lines:
    fields = line.split(maxsplit=5)
    name = fields[5] if len(fields) > 5 else ""
    if fields[1].endswith("s"):
        print("GOLDEN shared mapping", name)
    if "memfd" in name or "deleted" in name:
        print("GOLDEN mapping", fields[1], re.sub(r"\d+", "N", name))
for kind in ("REAL", "VIRTUAL", "PROF"):
    left = signal.getitimer(getattr(signal, f"ITIMER_{kind}"))
    print("GOLDEN timer", kind, "off" if left == (0.0, 0.0) else "on")
for thread in threading.enumerate():
    print("GOLDEN thread", thread.name, "daemon" if thread.daemon else "")
print("GOLDEN umask", oct(os.umask(0o022)))
print("GOLDEN priority", os.nice(0))
print("GOLDEN environment", " ".join(sorted(os.environ)))
