# args: [own]
# OCI-01: overwrite the program that made the container, by way of the link that procfs has to
# the executable of each process (CVE-2019-5736). With `own`, one that the code may write to.
import errno
import os
import shutil
import subprocess
import sys
import time

breach = []
tried = 0


def attempt(path):
    global tried
    tried += 1
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        try:
            fd = os.open(path, flags)
        except OSError:
            continue
        breach.append(f"{path} can be written to ({os.readlink(path)})")
        os.close(fd)
        return


if "own" in sys.argv[1:]:
    # A program of its own, written to as soon as nobody executes it any more: the race that
    # the real attack wins by holding the descriptor.
    shutil.copy("/bin/sleep", "/tmp/own-program")
    os.chmod("/tmp/own-program", 0o755)
    child = subprocess.Popen(["/tmp/own-program", "0.2"])
    time.sleep(0.05)
    held = os.open(f"/proc/{child.pid}/exe", os.O_RDONLY)
    child.wait()
    attempt(f"/proc/self/fd/{held}")
else:
    # Executed by its own executable: what a runtime that enters would run.
    script = f"/tmp/again-{os.getuid()}"
    with open(script, "w") as file:
        file.write("#!/proc/self/exe\n")
    os.chmod(script, 0o755)
    try:
        subprocess.run([script], timeout=2, capture_output=True)
    except (OSError, subprocess.TimeoutExpired):
        pass
    names = [name for name in os.listdir("/proc") if name.isdigit()]
    for name in names + ["self", "1"]:
        attempt(f"/proc/{name}/exe")
    for path in ("/.belljar/guest", "/.belljar/filter", "/.belljar"):
        tried += 1
        try:
            fd = os.open(path, os.O_WRONLY)
            os.close(fd)
            breach.append(f"{path} can be written to")
        except OSError:
            pass
    for name in names:
        try:
            target = os.readlink(f"/proc/{name}/exe")
        except OSError:
            continue
        if any(word in target for word in ("crun", "runc", "runsc")):
            breach.append(f"process {name} is the runtime: {target}")

if breach:
    print("BREACH", "; ".join(breach), flush=True)
else:
    print("HELD", f"{tried} executables cannot be written to", flush=True)
