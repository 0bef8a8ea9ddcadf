# What a poisoned package would try while the zygote imports it. Leaves what it
# reached for a child to tell. Arguments: port=N dir=PATH name=ABSTRACT pid=N
import ctypes, os, socket, sys

wanted = dict(text.split("=", 1) for text in sys.argv[1:] if "=" in text)
reached, refused = [], 0


def attempt(what, act):
    global refused
    try:
        act()
        reached.append(what)
    except Exception:
        refused += 1


def call(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.syscall(ctypes.c_long(number), *[ctypes.c_long(value) for value in arguments]) < 0:
        raise OSError(ctypes.get_errno(), "refused")


attempt("the host's network", lambda: socket.create_connection(("127.0.0.1", int(wanted["port"])), 1))
attempt("an abstract socket", lambda: socket.socket(socket.AF_UNIX).connect("\0" + wanted["name"]))
attempt("the host's files", lambda: open(wanted["dir"] + "/zyg13", "w").write("x"))
attempt("a host process", lambda: os.kill(int(wanted["pid"]), 0))
attempt("the engine's environment", lambda: open(f"/proc/{os.getppid()}/environ").read())
attempt("the layers", lambda: open("/usr/bin/env", "r+b").write(b"x"))
attempt("mount", lambda: call(165, 0, 0, 0, 0, 0))
attempt("unshare a user namespace", lambda: call(272, 0x10000000))
attempt("bpf", lambda: call(321, 0, 0, 0))
attempt("keyctl", lambda: call(250, 0, -3, 0))
attempt("perf", lambda: call(298, 0, 0, -1, -1, 0))
attempt("setuid", lambda: os.setuid(0))
if os.getuid() == 0:
    reached.append("root")
if any("canary" in value.lower() for value in os.environ.values()):
    reached.append("secrets in the environment")
with open("/proc/self/status") as file:
    status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
if int(status["CapEff"], 16) or int(status["CapBnd"], 16):
    reached.append("capabilities " + status["CapEff"] + " of " + status["CapBnd"])
if status["Seccomp"].strip() != "2" or status["NoNewPrivs"].strip() != "1":
    reached.append("no filter")
sys.zyg13 = f"BREACH reached: {'; '.join(reached)}" if reached else f"HELD {refused} attempts refused"
if "tell" in sys.argv:
    print(sys.zyg13)
