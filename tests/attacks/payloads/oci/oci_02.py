# args: [leak | cwd]
# OCI-02: descriptors that the runtime left open, and directories that are outside of the root
# (CVE-2024-21626). `leak` opens one itself, which must be found; `cwd` looks at the directory
# that it was started in alone.
import os
import sys

breach = []
what = sys.argv[1] if len(sys.argv) > 1 else ""


def above(start):
    """Where `..` of a directory ends."""
    fd = os.open(start, os.O_PATH | os.O_DIRECTORY)
    for _ in range(64):
        here = os.fstat(fd)
        up = os.open("..", os.O_PATH | os.O_DIRECTORY, dir_fd=fd)
        there = os.fstat(up)
        os.close(fd)
        fd = up
        if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
            break
    os.close(fd)
    return there


def same(one, other):
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


root = os.stat("/")
try:
    cwd = os.getcwd()
    outside = cwd.startswith("(unreachable)") or not same(above("."), root)
except OSError as e:
    cwd, outside = os.readlink("/proc/self/cwd"), True
if outside:
    breach.append(f"the working directory {cwd} is not below the root")

if what != "cwd":
    if what == "leak":
        os.dup2(os.open("/", os.O_RDONLY), 9)
    # The listing has one of its own.
    listing = os.open("/proc/self/fd", os.O_RDONLY)
    for name in os.listdir(listing):
        number = int(name)
        if number in (0, 1, 2, listing):
            continue
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        breach.append(f"descriptor {number} is {target}")
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        if int(pid) == os.getpid():
            continue
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        uid = os.stat(f"/proc/{pid}").st_uid
        if uid != os.getuid():
            breach.append(f"descriptors of {pid}, uid {uid}, are shown: {names}")

if breach:
    print("BREACH", "; ".join(breach), flush=True)
else:
    print("HELD", f"nothing is open but streams; started in {cwd}", flush=True)
