"""What a server has of this machine: processes, cgroups, descriptors, mounts, records, memory."""

import contextlib
import os
import pathlib
import time

from server import descendants, groups


def inside(folders):
    """Processes in these cgroups and below."""
    found = set()
    for folder in folders:
        for place, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                found |= set(map(int, pathlib.Path(place, "cgroup.procs").read_text().split()))
    return found


def resident(pid):
    """Memory of a process, in MiB."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"process {pid} has no memory")


def traces(server):
    """Everything that must be as it was when the last sandbox has ended."""
    pid = server.process.pid
    below = descendants(pid)
    folders = groups([pid, *below])
    found = {
        "processes": len(below),
        "processes in cgroups": len(inside(folders)),
        "cgroups": sum(len(names) for folder in folders for _, names, _ in os.walk(folder)),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "records": sorted(os.listdir(server.folder / "data" / "sandboxes")),
    }
    for child in filter(lambda child: command(child) == "belljar-spawner", below):
        found["descriptors of the spawner"] = len(list(descriptors(child)))
        found["mounts of the spawner"] = len(pathlib.Path(f"/proc/{child}/mountinfo").read_text().splitlines())
    return found


def descriptors(spawner):
    """Without the leases of user ids: as many as it once needed stay with it."""
    for number in os.listdir(f"/proc/{spawner}/fd"):
        with contextlib.suppress(FileNotFoundError):
            place = os.readlink(f"/proc/{spawner}/fd/{number}")
            if pathlib.Path(place).parent.name != "leases":
                yield place


def command(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    return ""


def settled(server, seconds=60):
    """The traces, once they have stayed the same for two seconds."""
    deadline, last, since = time.monotonic() + seconds, None, 0
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            now = traces(server)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > 2:
                return last
        time.sleep(0.2)
    raise SystemExit(f"FAILED: the server did not come to rest within {seconds} s: {last}")


def differences(server, before, seconds=60):
    """What is still not as it was, after having waited for it."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            now = traces(server)
            other = {name: (was, now[name]) for name, was in before.items() if now[name] != was}
            if not other or time.monotonic() > deadline:
                return [f"{name}: {was} before, {is_} after" for name, (was, is_) in other.items()]
        time.sleep(0.25)
