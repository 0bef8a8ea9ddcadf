# args: [own]
# OCI-16: look for the socket of a container engine, or any other, in the whole tree of mounts.
# `own`: with one of our own there.
import os
import socket
import stat
import sys

own = None
if sys.argv[1:] == ["own"]:
    own = socket.socket(socket.AF_UNIX)
    own.bind("/tmp/docker.sock")
    own.listen(1)
known = ["docker", "containerd", "podman", "crio", "buildkit", "libpod"]
sockets, names, looked = [], [], 0
places = ["/"]
while places:
    top = places.pop()
    try:
        entries = list(os.scandir(top))
    except OSError:
        continue
    for entry in entries:
        # No directory of the kernel's has sockets with a path.
        if entry.path in ("/proc", "/sys"):
            continue
        looked += 1
        is_known = entry.name.endswith(".sock") and any(word in entry.name for word in known)
        try:
            if entry.is_dir(follow_symlinks=False):
                places.append(entry.path)
            elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                names.extend([entry.path] if is_known else [])
            elif stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                sockets.append(entry.path)
        except OSError:
            continue
for place in ["/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock"]:
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(place)
        sockets.append(place + " answers")
    except OSError:
        pass
with open("/proc/self/mountinfo") as file:
    mounted = [line for line in file if ".sock" in line or any(word in line for word in known)]
if sockets or names or mounted:
    print("BREACH", "; ".join(sockets + names + mounted), flush=True)
elif looked < 500:
    print("NOTE unstaged: only", looked, "names were looked at")
else:
    print("HELD", f"no socket among {looked} names", flush=True)
