# args: [own]
# OCI-17: as root with the profile `full`, and as the guest's user: leave the call's group, raise
# its limits, reach what the guest counts and ends calls by. `own`: where groups can be reached.
import glob
import os
import sys

GUEST_UID = 999
places = ["/.belljar/groups", "/sys/fs/cgroup", "/proc/1/root/.belljar/groups", "/proc/1/fd"]
if sys.argv[1:] == ["own"]:
    os.makedirs("/tmp/groups/pids/calls")
    for name in ("pids.max", "tasks"):
        open(f"/tmp/groups/pids/calls/{name}", "w").close()
    places.append("/tmp/groups")


def attack(who):
    breach, held = [], []

    def attempt(what, act):
        try:
            found = act()
        except OSError as error:
            held.append(error.strerror)
            return
        (breach if found else held).append(f"{what} as {who}" if found else "nothing there")

    def write(path, text):
        fd = os.open(path, os.O_WRONLY)
        try:
            os.write(fd, text)
        finally:
            os.close(fd)
        return True

    for place in places:
        if place != "/proc/1/fd":
            attempt(f"{place} is listed", lambda: os.listdir(place))
        below = [f"{place}/{name}" for name in ("pids", "pids/calls", "memory", "cpuacct", "unified")]
        below += [f"{place}/{number}" for number in range(16)] + [f"{place}/{number}/calls" for number in range(16)]
        for directory in below + glob.glob(f"{place}/*/*"):
            attempt(f"{directory}/pids.max is written", lambda: write(f"{directory}/pids.max", b"max"))
            for name in ("tasks", "cgroup.procs"):
                attempt(f"{directory}/{name} is written", lambda: write(f"{directory}/{name}", b"0"))
    return breach, held


breach, held = attack("root")
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.setgroups([])
    os.setresgid(GUEST_UID, GUEST_UID, GUEST_UID)
    os.setresuid(GUEST_UID, GUEST_UID, GUEST_UID)
    found, _ = attack("the guest's user")
    os.write(writer, ("; ".join(found) or "-").encode()[:4000])
    os._exit(0)
os.close(writer)
said = os.read(reader, 4096).decode()
os.waitpid(child, 0)
if not said:
    print("NOTE unstaged: cannot become the guest's user")
    sys.exit(2)
if said != "-":
    breach.append(said)
if breach:
    print("BREACH", "; ".join(breach)[:2000], flush=True)
else:
    print("HELD", f"no group within reach: {', '.join(sorted(set(held)))}", flush=True)
