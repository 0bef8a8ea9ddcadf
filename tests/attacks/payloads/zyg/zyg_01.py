# Reads all of its own memory and looks for secrets: those of the engine, and of
# a session that runs beside. With "plant" it has one of its own to find.
import re, sys

# The prefixes alone are in this text; the digits are nowhere unless they leaked.
pattern = re.compile(rb"-canary-[0-9a-f]{24}")
if "plant" in sys.argv:
    planted = [("ses-can" + "ary-" + "%024x" % 0xC0FFEE).encode() for _ in range(8)]
found, seen = set(), 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps.read().splitlines():
        area = line.split(maxsplit=5)
        start, end = (int(part, 16) for part in area[0].split("-"))
        if area[1][0] != "r" or "[v" in line:
            continue
        at, tail = start, b""
        while at < end:
            try:
                memory.seek(at)
                chunk = memory.read(min(1 << 20, end - at))
            except OSError:
                break
            if not chunk:
                break
            found.update(match[0][:12] for match in pattern.finditer(tail + chunk))
            tail = chunk[-64:]
            at += len(chunk)
            seen += len(chunk)
if seen < 8 << 20:
    print("NOTE unstaged: only", seen, "bytes could be read")
elif found:
    print("BREACH secrets in memory:", sorted(found))
else:
    print("HELD", seen >> 20, "MiB were read, no secret in them")
