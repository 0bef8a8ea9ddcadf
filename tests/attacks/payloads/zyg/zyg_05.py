# Looks for memory and files that others could see it write to. With "share" it
# makes some first.
import ctypes, mmap, os, sys

if "share" in sys.argv:
    area = mmap.mmap(-1, 4096)
found = []
with open("/proc/self/maps") as file:
    for line in file.read().splitlines():
        fields = line.split(maxsplit=5)
        if not fields[1].endswith("s"):
            continue
        start, end = (int(part, 16) for part in fields[0].split("-"))
        # A file that was opened for reading cannot be made writable.
        protect = ctypes.CDLL(None).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if "w" in fields[1] or protect(start, end - start, 3) == 0:
            found.append(f"mapping {fields[1]} {fields[5:]}")
for number in sorted(int(name) for name in os.listdir("/proc/self/fd")):
    path = f"/proc/self/fd/{number}"
    try:
        target = os.readlink(path)
    except OSError:
        continue
    if number > 3 and not target.startswith("/proc/"):
        found.append(f"descriptor {number} {target}")
    if number <= 3 and not target.startswith(("pipe:", "socket:", "/dev/null")):
        found.append(f"descriptor {number} {target}")
print("BREACH shared: " + "; ".join(found) if found else "HELD nothing is shared")
