# args: none
# VM-09: speak to the host in the guest's place. Whoever opens the port could send frames of any
# length, or nothing for ever.
import glob
import os

breach = []
held = []
for path in sorted(glob.glob("/dev/vport*") + glob.glob("/dev/virtio-ports/*") + ["/dev/port", "/dev/mem"]):
    try:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError as e:
        held.append(f"{path}: {e.strerror}")
        continue
    breach.append(f"{path} was opened")
    for junk in (b"\xff" * 4096, b"\x00" * 65536):
        try:
            for _ in range(64):
                os.write(fd, junk)
        except OSError:
            break
    os.close(fd)

# The guest's own descriptors lead there as well.
for name in glob.glob("/proc/1/fd/*"):
    try:
        os.close(os.open(name, os.O_RDWR))
        breach.append(f"{name} was opened: {os.readlink(name)}")
    except OSError as e:
        held.append(e.strerror)

if breach:
    print("BREACH", "; ".join(breach), flush=True)
else:
    print("HELD", f"no way to the channel: {', '.join(sorted(set(held))) or 'nothing to open'}", flush=True)
