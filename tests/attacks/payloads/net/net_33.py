# args: FOLDER NAME
# NET-33: looks for the host's folder of packages, and for a file in it, by every path that could
# lead there; then reads it, changes it and adds to it.
import os
import sys

folder, wanted = sys.argv[1:3]
breach, tried = [], 0


def use(path):
    """Reads a kept file, changes it, and puts another one beside it."""
    beside = os.path.join(os.path.dirname(path), "planted")
    acts = (("read", path, "rb"), ("changed", path, "r+b"), ("added to", beside, "wb"))
    for what, where, mode in acts:
        try:
            with open(where, mode) as file:
                if mode == "rb":
                    file.read(16)
                else:
                    file.write(b"planted by the sandbox")
            breach.append(f"{what} {where}")
        except OSError:
            pass


def look(top, skipped=()):
    global tried
    for here, directories, names in os.walk(top, followlinks=False):
        directories[:] = [d for d in directories if os.path.join(here, d) not in skipped]
        tried += 1 + len(names)
        if wanted in names:
            use(os.path.join(here, wanted))


pids = [name for name in os.listdir("/proc") if name.isdigit()]
up = "/".join([".."] * 40)
roots = ["", "/proc/self/root", f"/proc/self/cwd/{up}", f"/dev/fd/../../{up}"]
roots += [f"/proc/{pid}/{name}" for pid in pids for name in ("root", f"cwd/{up}")]
for root in roots:
    tried += 1
    try:
        os.listdir(root + folder)
    except OSError:
        pass
    else:
        breach.append(f"listed {root}{folder}")
        look(root + folder)
for pid in pids:
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        continue
    for number in numbers:
        tried += 1
        try:
            target = os.readlink(f"/proc/{pid}/fd/{number}")
        except OSError:
            continue
        if folder in target or wanted in target:
            breach.append(f"descriptor {number} of {pid} is {target}")
# What belongs to the base is the same for everybody, and was there before.
look("/", ("/proc", "/sys", "/usr"))

print("BREACH " + "; ".join(breach) if breach else f"HELD in none of {tried} places", flush=True)
