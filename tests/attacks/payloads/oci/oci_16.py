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
for top, folders, files in os.walk("/", onerror=lambda error: None):
    if top == "/":
        # No directory of the kernel's has sockets with a path.
        folders[:] = [name for name in folders if name not in ("proc", "sys")]
    for name in files + folders:
        looked += 1
        path = os.path.join(top, name)
        try:
            info = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISSOCK(info.st_mode):
            sockets.append(path)
        elif name.endswith(".sock") and any(word in name for word in known):
            names.append(path)
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
