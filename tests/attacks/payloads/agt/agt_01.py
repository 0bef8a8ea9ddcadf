# args: [listen]
# AGT-01: find the guest's socket or port and ask it for something. `listen`: beside a process that
# can be found, for the control.
import os
import socket
import struct
import sys
import threading

breach = []
held = []

if "listen" in sys.argv:
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=lambda: [server.accept() for _ in range(1)], daemon=True).start()

# A call of the protocol: `Spawn` of nothing on channel 1.
FRAME = struct.pack("<IBI", 3, 2, 1) + b"\0\0\0"

# 1. Every port of the sandbox's loopback.
open_ports = []
for port in range(1, 65536):
    try:
        probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        held.append(f"sockets: {error.strerror}")
        break
    try:
        probe.connect(("127.0.0.1", port))
        # One that met itself met nobody.
        if probe.getsockname() != probe.getpeername():
            open_ports.append(port)
            probe.send(FRAME)
    except OSError as error:
        if port == 1:
            held.append(f"ports: {error.strerror}")
    finally:
        probe.close()
if open_ports:
    breach.append(f"something listens on {open_ports}")

# 2. Every unix socket that this network namespace knows.
try:
    lines = open("/proc/net/unix").read().splitlines()[1:]
except OSError as error:
    lines, _ = [], held.append(f"/proc/net/unix: {error.strerror}")
for line in lines:
    fields = line.split(maxsplit=7)
    if len(fields) < 8:
        continue
    name = fields[7]
    address = "\0" + name[1:] if name.startswith("@") else name
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.connect(address)
        probe.send(FRAME)
        breach.append(f"the socket {name} answers")
    except OSError as error:
        held.append(f"{name}: {error.strerror}")
    finally:
        probe.close()

# 3. Descriptors that came with this call, and those of pid 1.
for name in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        continue
    if int(name) > 2 and target.startswith("socket:") and "listen" not in sys.argv:
        breach.append(f"descriptor {name} is {target}")
for number in range(16):
    try:
        fd = os.open(f"/proc/1/fd/{number}", os.O_RDWR)
        breach.append(f"descriptor {number} of pid 1 was opened")
        os.write(fd, FRAME)
    except OSError as error:
        held.append(f"/proc/1/fd: {error.strerror}")
try:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = libc.syscall(434, 1, 0)
    taken = libc.syscall(438, pidfd, 3, 0) if pidfd >= 0 else -1
    if taken >= 0:
        breach.append("the guest's stream was taken")
    else:
        held.append(f"pidfd: {os.strerror(ctypes.get_errno())}")
except OSError as error:
    held.append(f"pidfd: {error.strerror}")

if breach:
    print("BREACH", "; ".join(breach), flush=True)
else:
    print("HELD", f"no way to the guest: {'; '.join(sorted(set(held)))[:400]}", flush=True)
