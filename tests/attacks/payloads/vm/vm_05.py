# args: none
# VM-05: a metadata service, or anything else that the monitor tells a machine about its host.
import glob
import os
import socket

breach = []
held = []

for address in [("169.254.169.254", 80), ("169.254.170.2", 80), ("10.0.2.2", 80), ("10.0.2.3", 53)]:
    try:
        socket.create_connection(address, 2).close()
        breach.append(f"{address[0]} answers")
    except OSError as e:
        held.append(e.strerror or str(e))

links = [name for name in os.listdir("/sys/class/net")] if os.path.isdir("/sys/class/net") else []
others = [name for name in links if name != "lo"]
if others:
    breach.append(f"network devices {others}")
for _, name in socket.if_nameindex():
    if name != "lo":
        breach.append(f"network device {name}")

for path in glob.glob("/sys/firmware/qemu_fw_cfg/by_name/**/raw", recursive=True):
    if "opt/" in path:
        breach.append(f"the monitor's settings: {path}")

try:
    line = open("/proc/cmdline").read()
    for word in ("/run/", "/root", "/home", "/var/", "token", "secret", "key="):
        if word in line:
            breach.append(f"the kernel's command line has {word}: {line}")
except OSError as e:
    held.append(str(e.strerror))

if breach:
    print("BREACH", "; ".join(breach), flush=True)
else:
    print("HELD", f"nothing but a loopback: {', '.join(sorted(set(held)))}", flush=True)
