# Tries to signal, trace and read processes by number: those it was given, which
# are the host's numbers of the zygote and the engine, and a range of small ones.
import ctypes, errno, os, sys

libc = ctypes.CDLL(None, use_errno=True)
own = "self" in sys.argv
targets = [int(text) for text in sys.argv[1:] if text.isdigit()] + list(range(1, 300))
reached = []
for pid in targets:
    if pid == os.getpid() and not own:
        continue
    try:
        os.kill(pid, 0)
        reached.append(f"signal {pid}")
    except OSError:
        pass
    if libc.ptrace(0x4206, pid, None, None) == 0:
        reached.append(f"trace {pid}")
        libc.ptrace(17, pid, None, None)
    for file in ("mem", "maps", "environ", "fd", "root", "cwd"):
        path = f"/proc/{pid}/{file}"
        try:
            if file in ("fd", "root", "cwd"):
                os.listdir(path)
            else:
                open(path, "rb").read(1) if file != "mem" else open(path, "rb").close()
            reached.append(path)
        except OSError:
            pass
extra = [name for name in os.listdir("/proc/self/fd") if int(name) > 3]
# One of them was the listing itself.
if len(extra) > 1:
    reached.append(f"descriptors {extra}")
try:
    # The guest is pid 1 and of another user: it may be seen to exist, not more.
    reached.remove("signal 1")
except ValueError:
    pass
if reached:
    print("BREACH reached:", "; ".join(reached)[:300])
else:
    print("HELD", len(targets), "process numbers, none reached")
