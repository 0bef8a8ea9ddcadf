# args: HEX
# GW-12: looks for bytes in every file that can be read, variables and arguments included.
import os
import sys

wanted = bytes.fromhex(sys.argv[1])
looked = 0
skipped = ("/proc", "/sys", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/opt", "/boot")
for top, directories, names in os.walk("/", followlinks=False):
    directories[:] = [d for d in directories if os.path.join(top, d) not in skipped]
    for name in names:
        path = os.path.join(top, name)
        try:
            if not os.path.isfile(path) or os.path.getsize(path) > 64 << 20:
                continue
            with open(path, "rb") as file:
                looked += 1
                if wanted in file.read():
                    print("FOUND", path, flush=True)
        except OSError:
            pass
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    for name in ("environ", "cmdline"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                looked += 1
                if wanted in file.read():
                    print("FOUND", f"{name} of {pid} inside", flush=True)
        except OSError:
            pass
print("LOOKED", looked, "files", flush=True)
