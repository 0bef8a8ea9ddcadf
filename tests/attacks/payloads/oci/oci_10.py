# args: [own]
# OCI-10: catch a process that the host puts into the container before it has become the
# call's program: read its memory, its descriptors, its program. `own`: one of our own, which
# stands still in that state.
import os
import signal
import sys
import time

own = sys.argv[1:] == ["own"]
found, seen, tries = set(), set(), 0


def is_foreign(exe):
    # A program that no file of the container is: the guest, a runtime, or one in memory.
    return exe.startswith("/memfd:") or exe.endswith(" (deleted)") or "runc" in exe or "crun" in exe


def look(pid):
    global tries
    tries += 1
    base = f"/proc/{pid}/"
    try:
        exe = os.readlink(base + "exe")
    except OSError:
        return
    seen.add(exe)
    if not is_foreign(exe):
        return
    try:
        with open(base + "mem", "r+b", buffering=0):
            found.add(f"memory of {exe} can be written")
    except OSError:
        pass
    try:
        for name in os.listdir(base + "fd"):
            target = os.readlink(base + "fd/" + name)
            if int(name) > 2:
                os.close(os.open(base + "fd/" + name, os.O_RDONLY | os.O_NONBLOCK))
                found.add(f"descriptor {name} of {exe} is {target}")
    except OSError:
        pass


child = 0
if own:
    program = os.memfd_create("program", 0)
    with open("/bin/sleep", "rb") as file:
        data = file.read()
    while data:
        data = data[os.write(program, data) :]
    child = os.fork()
    if child == 0:
        os.set_inheritable(program, True)
        os.execve(program, ["sleep", "30"], {})
print("NOTE watching", flush=True)
me = os.getpid()
end = time.monotonic() + (1 if own else 4)
while time.monotonic() < end:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != me:
            look(int(name))
if child:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
if found:
    print("BREACH", "; ".join(sorted(found)), flush=True)
else:
    print("HELD", f"{tries} looks, {len(seen)} programs, none of the host's in reach", flush=True)
