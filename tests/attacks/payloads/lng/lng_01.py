# args: none
# LNG-01: escape the language. Every trick is expected to work, because Python is not a
# boundary; what counts is that the kernel still says no to what comes after it.
import ctypes
import errno
import mmap
import os
import sys

held = []
breach = []


def note(text):
    print("NOTE", text, flush=True)


def name(e):
    return errno.errorcode.get(e, str(e))


# ---- the tricks: from a literal to arbitrary machine code

tricks = []

subs = ().__class__.__base__.__subclasses__()
if any(c.__name__ == "Popen" or c.__name__ == "_wrap_close" for c in subs):
    tricks.append("subclasses reach os")
for c in subs:
    if c.__name__ == "_wrap_close":
        if "system" in c.__init__.__globals__:
            tricks.append("globals of a class hold system()")

try:
    raise ValueError
except ValueError as e:
    frame = e.__traceback__.tb_frame
    if "__builtins__" in frame.f_globals:
        tricks.append("a traceback frame holds the builtins")


class Box:
    def __init__(self):
        self.x = 1


if "ctypes" in "{0.__init__.__globals__}".format(Box()):
    tricks.append("a format string reads globals")

libc = ctypes.CDLL(None, use_errno=True)
tricks.append("ctypes loads libc")


def machine_code(code):
    """Runs raw bytes as a function that returns a long."""
    # One map for writing, turned executable before use: the usual way of a JIT.
    m = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    m.write(code)
    addr = ctypes.addressof(ctypes.c_char.from_buffer(m))
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if libc.mprotect(addr, mmap.PAGESIZE, 5) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    return ctypes.CFUNCTYPE(ctypes.c_long)(addr), m


raw_syscall = None
try:
    # mov eax, 39 (getpid); syscall; ret
    fn, keep = machine_code(b"\xb8\x27\x00\x00\x00\x0f\x05\xc3")
    if fn() == os.getpid():
        tricks.append("raw machine code runs")
except OSError as e:
    note("no executable memory: " + name(e.errno))
note("language tricks that work: " + ", ".join(tricks))

# ---- the boundary: the same calls, now with nothing of Python in between

uid = os.getuid()


def act(what, nr, *args, ok=(errno.EPERM,)):
    """One raw call in a child, so that a kill by the filter is seen as such."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        libc.syscall.restype = ctypes.c_long
        ctypes.set_errno(0)
        got = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) for a in args])
        os.write(w, ("%d %d" % (got, ctypes.get_errno())).encode())
        os._exit(0)
    os.close(w)
    text = os.read(r, 64).decode()
    os.close(r)
    _, st = os.waitpid(pid, 0)
    if os.WIFSIGNALED(st):
        if os.WTERMSIG(st) == 31:
            held.append(what + " killed by the filter")
        else:
            breach.append("%s ended by signal %d" % (what, os.WTERMSIG(st)))
        return
    got, err = map(int, text.split())
    if got >= 0:
        breach.append("%s succeeded (%d)" % (what, got))
    elif err in ok:
        held.append("%s %s" % (what, name(err)))
    else:
        breach.append("%s got past its lock (%s)" % (what, name(err)))


E = errno
act("unshare(NEWUSER)", 272, 0x10000000, ok=(E.EPERM, E.ENOSPC))
act("ptrace(TRACEME)", 101, 0, 0, 0, 0)
act("keyctl", 250, 0, -3, 0)
act("io_uring_setup", 425, 1, 0, ok=(E.EPERM, E.ENOSYS))
act("bpf", 321, 0, 0, 0)
act("socket(UDP)", 41, 2, 2, 0, ok=(E.EPERM, E.EAFNOSUPPORT))
act("personality(NO_RANDOMIZE)", 135, 0x40000)
act("setuid(0)", 105, 0, ok=(E.EPERM, E.EINVAL))
act("setuid(999)", 105, 999, ok=(E.EPERM, E.EINVAL))

for path in ("/proc/1/environ", "/proc/1/mem", "/etc/shadow", "/dev/mem"):
    try:
        with open(path, "rb") as f:
            if f.read(1):
                breach.append(path + " is readable")
            else:
                held.append(path + " empty")
    except OSError as e:
        held.append("%s %s" % (path, name(e.errno)))

if os.getuid() != uid or os.geteuid() != uid or uid == 0:
    breach.append("identity changed or is root")
else:
    held.append("still uid %d" % uid)

if breach:
    print("BREACH " + "; ".join(breach), flush=True)
else:
    print("HELD " + "; ".join(held), flush=True)
sys.exit(0)
