"""Channels by which one session might be seen from another.

A canary probe has two halves: `plant` leaves a secret, `look` searches for it.
The suite plants in one session and looks in another, where nothing may be
found, and looks where it must be found: in the same sandbox, or for state of
an interpreter in the same interpreter. A draw yields a value that no two
sessions may share; its control rigs the source, after which all values are
equal. What a session is given to look for is encoded, so that it never holds a
canary in plain text by itself.
"""

import ctypes
import errno
import glob
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

PROBES = {}
HOME = "/home/user"
libc = ctypes.CDLL(None, use_errno=True)
say, opened = print, open
KEEP = []


class Closed(Exception):
    """The channel does not exist for anyone in a sandbox."""


def probe(
    group, reach="sandbox", copied=False, closed=False, kind="canary", root=None, specific=True,
):
    """`reach`: how far the channel goes by design. `copied`: a copy of the
    sandbox has it, too. `root`: a script that plants, run as the sandbox's
    root with the canary as its argument. `specific`: whether one canary can be
    told from another."""
    def add(channel):
        name = f"{group}/{channel.__name__}"
        PROBES[name] = (channel, dict(
            name=name, reach=reach, copied=copied, closed=closed, kind=kind, root=root,
            specific=specific,
        ))
        return channel

    return add


def catalogue():
    say("BLEED", json.dumps([facts for _, facts in PROBES.values()]))


def answer(function, *arguments):
    try:
        found = function(*arguments)
        say("BLEED", json.dumps({"found": None if found is None else str(found)[:300]}))
    except Closed as reason:
        say("BLEED", json.dumps({"closed": str(reason)}))


def plant(name, canary):
    channel = PROBES[name][0]
    answer(lambda: channel.plant(canary) if hasattr(channel, "plant") else None)


def look(name, hidden):
    channel, facts = PROBES[name]
    secret = hidden if facts["kind"] == "memory" else bytes.fromhex(hidden)[::-1].decode()
    answer(channel.look, secret)


def draw(name, rigged=False):
    channel = PROBES[name][0]
    if rigged:
        channel.rig()
    answer(channel.draw)


REFUSALS = (errno.EPERM, errno.ENOSYS, errno.EACCES)


def checked(result, what, refusals=REFUSALS):
    """A call of the C library that must not answer less than zero."""
    if result >= 0:
        return result
    number = ctypes.get_errno()
    if number in refusals:
        raise Closed(f"{what}: {errno.errorcode[number]}")
    raise OSError(number, what)


# Files.

def written(path, canary, mode="w"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with opened(path, mode) as file:
        file.write(canary)


def search(places, canary, largest=1 << 20):
    """Canaries in names or contents of files below these places."""
    for place in places:
        for folder, folders, files in os.walk(place):
            for name in folders + files:
                path = os.path.join(folder, name)
                if canary in name:
                    return path
                try:
                    if os.path.isfile(path) and os.path.getsize(path) <= largest:
                        with opened(path, "rb") as file:
                            if canary.encode() in file.read():
                                return path
                except OSError:
                    continue


def place(name, folder, root=None, file="canary"):
    def put(canary):
        written(f"{folder}/{file}", canary)
        written(f"{folder}/{canary}", "by name")

    members = dict(look=staticmethod(lambda canary: search([folder], canary)))
    if root is None:
        members["plant"] = staticmethod(put)
    probe("files", copied=True, root=root)(type(name, (), members))


def by_root(folder):
    return f'mkdir -p {folder} && echo "$0" > {folder}/canary && : > {folder}/"$0" && chmod -R a+rX {folder}'


place("home", HOME)
place("tmp", "/tmp")
place("var_tmp", "/var/tmp")
place("run", "/run", root=by_root("/run"))
place("cache", f"{HOME}/.cache")
place("ipython", f"{HOME}/.ipython/profile_default")
place("config", f"{HOME}/.config")
place("matplotlib_cache", f"{HOME}/.cache/matplotlib", file="fontlist-v390.json")
place("matplotlib_config", f"{HOME}/.config/matplotlib", file="matplotlibrc")
place("local_share", f"{HOME}/.local/share")
place("x11", "/tmp/.X11-unix")
place("etc", "/etc/belljar", root=by_root("/etc/belljar"))
place("opt", "/opt", root=by_root("/opt"))
place("root_home", "/root", root="chmod a+rx /root; " + by_root("/root"))


@probe("files", copied=False)
class dev_shm:
    def plant(canary):
        written("/dev/shm/canary", canary)

    def look(canary):
        return search(["/dev/shm"], canary)


@probe("files", copied=True)
class any_name:
    """A name somewhere in the whole tree."""

    def plant(canary):
        written(f"{HOME}/deep/er/{canary}", "")

    def look(canary):
        for folder, folders, files in os.walk("/"):
            folders[:] = [name for name in folders if folder != "/" or name not in ("proc", "sys")]
            if canary in folder or canary in "\0".join(files):
                return folder


@probe("files", copied=True)
class user_site:
    """A start-up file of Python, which a later interpreter would run."""
    folder = f"{HOME}/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"

    def plant(canary):
        written(f"{user_site.folder}/bleed.pth", f"import sys; sys.bleed_pth = {canary!r}\n")

    def look(canary):
        code = "import sys; print(getattr(sys, 'bleed_pth', ''))"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        return "a start-up file ran" if canary in said.stdout else None


SITE = "$(python3 -c 'import numpy, os; print(os.path.dirname(numpy.__file__))')"


@probe("files", copied=True, root=f'echo "# $0" >> {SITE}/version.py')
class site_packages:
    def look(canary):
        import numpy

        with opened(os.path.join(os.path.dirname(numpy.__file__), "version.py")) as file:
            return "numpy's source has it" if canary in file.read() else None


@probe("files", copied=True, root=f"""cd {SITE} && python3 - "$0" <<'EOF'
import os, py_compile, sys
open("/tmp/poison.py", "w").write(f"poison = {{sys.argv[1]!r}}")
os.makedirs("__pycache__", exist_ok=True)
py_compile.compile("/tmp/poison.py", "__pycache__/belljar_poison.pyc")
os.unlink("/tmp/poison.py")
EOF""")
class pycache:
    def look(canary):
        import numpy

        return search([os.path.join(os.path.dirname(numpy.__file__), "__pycache__")], canary)


# Writes to a shared lower file by every way that the sandbox's root has; the
# host compares the file of the layer as well.
@probe("files", copied=True, root="""python3 - "$0" <<'EOF'
import mmap, os, sys
path = "/usr/bin/env"
with open(path, "r+b") as file:
    with mmap.mmap(file.fileno(), 0) as area:
        canary = sys.argv[1].encode()
        area[-len(canary):] = canary
        area.flush()
EOF""")
class lower_file_mapped:
    def look(canary):
        with opened("/usr/bin/env", "rb") as file:
            return "the program has it" if canary.encode() in file.read() else None


@probe("files", reach="interpreter", copied=False)
class lower_file_private:
    """A private mapping of a shared file, written to."""

    def plant(canary):
        import mmap

        with opened("/etc/passwd", "rb") as file:
            area = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        area[:len(canary)] = canary.encode()
        KEEP.append(area)

    def look(canary):
        with opened("/etc/passwd", "rb") as file:
            if canary.encode() in file.read():
                return "the file has it"
        own = [area for area in KEEP if hasattr(area, "flush") and canary.encode() in area[:]]
        return "the mapping has it" if own else None


@probe("files", reach="interpreter")
class maps:
    """A mapped file shows by its name in /proc/PID/maps."""

    def plant(canary):
        written(f"/tmp/map-{canary}", canary)
        code = f"import mmap,time; f=open('/tmp/map-{canary}','r+b'); m=mmap.mmap(f.fileno(),0); print(1,flush=True); time.sleep(900)"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        child.stdout.readline()
        KEEP.append(child)

    def look(canary):
        for path in glob.glob("/proc/[0-9]*/maps"):
            try:
                with opened(path) as file:
                    if canary in file.read():
                        return path
            except OSError:
                continue


@probe("files", reach="interpreter")
class deleted_file:
    """Deleted, and still open somewhere."""

    def plant(canary):
        code = f"import os,time; f=open('/tmp/gone','w+'); f.write({canary!r}); f.flush(); os.unlink('/tmp/gone'); print(1,flush=True); time.sleep(900)"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        child.stdout.readline()
        KEEP.append(child)

    def look(canary):
        for path in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                if os.path.isfile(path):
                    with opened(path, "rb") as file:
                        if canary.encode() in file.read(1 << 16):
                            return path
            except OSError:
                continue


@probe("files", closed=True)
class core_dump:
    def plant(canary):
        script = f"ulimit -c unlimited 2>/dev/null; cd /tmp; CANARY={canary} exec {sys.executable} -c 'import os; os.abort()'"
        subprocess.run(["/bin/sh", "-c", script], capture_output=True)
        if not core_dump.found():
            raise Closed("a crash leaves no core")

    def found():
        patterns = ["/tmp/*core*", f"{HOME}/*core*", "/var/crash/*", "/core*", "/var/lib/systemd/coredump/*"]
        return [path for pattern in patterns for path in glob.glob(pattern)]

    def look(canary):
        return search(["/tmp", "/var/crash"], canary, 1 << 30)


# System V and POSIX objects.

KEY = 0x62_6C_65_64
CREATE = 0o1666


@probe("ipc")
class sysv_shm:
    def plant(canary):
        libc.shmat.restype = ctypes.c_void_p
        number = checked(libc.shmget(KEY, 4096, CREATE), "shmget")
        where = libc.shmat(number, None, 0)
        ctypes.memmove(where, canary.encode(), len(canary))
        libc.shmdt(ctypes.c_void_p(where))

    def look(canary):
        libc.shmat.restype = ctypes.c_void_p
        for number in [libc.shmget(KEY, 0, 0), *range(64)]:
            where = libc.shmat(number, None, 0o10000) if number >= 0 else None
            if where in (None, ctypes.c_void_p(-1).value):
                continue
            has = canary.encode() in ctypes.string_at(where, 4096)
            libc.shmdt(ctypes.c_void_p(where))
            if has:
                return f"segment {number}"


@probe("ipc")
class sysv_sem:
    """A semaphore can only hold a number: one made of the canary."""

    def value(canary):
        return int(hashlib.sha256(canary.encode()).hexdigest(), 16) % 30_000 + 1

    def plant(canary):
        number = checked(libc.semget(KEY, 1, CREATE), "semget")
        checked(libc.semctl(number, 0, 16, sysv_sem.value(canary)), "semctl")

    def look(canary):
        for number in [libc.semget(KEY, 0, 0), *range(64)]:
            if number >= 0 and libc.semctl(number, 0, 12) == sysv_sem.value(canary):
                return f"semaphore {number}"


@probe("ipc")
class sysv_msg:
    def plant(canary):
        number = checked(libc.msgget(KEY, CREATE), "msgget")
        text = (1).to_bytes(8, "little") + canary.encode()
        checked(libc.msgsnd(number, text, len(canary), 0o4000), "msgsnd")

    def look(canary):
        buffer = ctypes.create_string_buffer(8 + 4096)
        for number in [libc.msgget(KEY, 0), *range(64)]:
            # A message is taken by whoever looks, so it is put back.
            size = libc.msgrcv(number, buffer, 4096, ctypes.c_long(0), 0o4000) if number >= 0 else -1
            if size >= 0:
                libc.msgsnd(number, buffer, size, 0o4000)
                if canary.encode() in buffer.raw:
                    return f"queue {number}"


@probe("ipc")
class posix_shm:
    def plant(canary):
        number = checked(libc.shm_open(b"/bleed", os.O_RDWR | os.O_CREAT, 0o666), "shm_open")
        os.write(number, canary.encode())
        os.close(number)

    def look(canary):
        number = libc.shm_open(b"/bleed", os.O_RDONLY, 0)
        if number < 0:
            return None
        text = os.read(number, 4096)
        os.close(number)
        return "segment" if canary.encode() in text else None


@probe("ipc")
class posix_sem:
    def plant(canary):
        libc.sem_open.restype = ctypes.c_void_p
        if not libc.sem_open(f"/{canary}".encode(), os.O_CREAT, 0o666, 1):
            checked(-1, "sem_open")

    def look(canary):
        libc.sem_open.restype = ctypes.c_void_p
        return "semaphore" if libc.sem_open(f"/{canary}".encode(), 0) else None


@probe("ipc", closed=True)
class posix_mq:
    def plant(canary):
        # Their bytes are limited to none, which the kernel calls EMFILE.
        made = libc.mq_open(b"/bleed", os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666, None)
        number = checked(made, "mq_open", (*REFUSALS, errno.EMFILE))
        checked(libc.mq_send(number, canary.encode(), len(canary), 0), "mq_send")
        os.close(number)

    def look(canary):
        number = libc.mq_open(b"/bleed", os.O_RDWR | os.O_NONBLOCK)
        if number < 0:
            return None
        buffer = ctypes.create_string_buffer(1 << 16)
        size = libc.mq_receive(number, buffer, len(buffer), None)
        if size >= 0:
            libc.mq_send(number, buffer, size, 0)
        os.close(number)
        return "queue" if canary.encode() in buffer.raw else None


@probe("ipc", closed=True)
class keyring:
    ADD, KEYCTL = (248, 250) if os.uname().machine == "x86_64" else (217, 219)

    def plant(canary):
        for ring in (-3, -4, -5):
            text = canary.encode()
            checked(libc.syscall(keyring.ADD, b"user", b"bleed", text, len(text), ring), "add_key")

    def look(canary):
        buffer = ctypes.create_string_buffer(4096)
        for ring in (-1, -2, -3, -4, -5):
            key = libc.syscall(keyring.KEYCTL, 10, ring, b"user", b"bleed", 0)
            if key > 0 and libc.syscall(keyring.KEYCTL, 11, key, buffer, 4096) > 0:
                if canary.encode() in buffer.raw:
                    return f"key of ring {ring}"


# Processes. Those of another context are hidden even in the same sandbox, where
# interpreters were forked: each of them is in a Landlock domain of its own.

@probe("processes", reach="interpreter")
class command_line:
    def plant(canary):
        KEEP.append(subprocess.Popen(["/bin/sh", "-c", "sleep 900; :", canary]))

    def look(canary):
        return in_every_process("cmdline", canary)


@probe("processes", reach="interpreter")
class environment:
    def plant(canary):
        script = ["/bin/sh", "-c", "echo; exec sleep 900"]
        child = subprocess.Popen(script, env={"BLEED": canary}, stdout=subprocess.PIPE)
        child.stdout.readline()
        KEEP.append(child)

    def look(canary):
        return in_every_process("environ", canary)


def in_every_process(file, canary):
    # Also those that a listing hides.
    numbers = {int(name) for name in os.listdir("/proc") if name.isdigit()} | set(range(1, 400))
    for number in sorted(numbers):
        try:
            with opened(f"/proc/{number}/{file}", "rb") as text:
                if canary.encode() in text.read():
                    return f"process {number}"
        except OSError:
            continue


@probe("processes", reach="interpreter")
class ps:
    def plant(canary):
        KEEP.append(subprocess.Popen(["/bin/sh", "-c", "sleep 900; :", canary]))

    def look(canary):
        try:
            said = subprocess.run(["ps", "axww"], capture_output=True, text=True).stdout
        except FileNotFoundError:
            said = " ".join(
                opened(path, "rb").read().decode(errors="replace") for path in glob.glob("/proc/[0-9]*/cmdline")
            )
        return "ps shows it" if canary in said else None


# Sockets.

SERVER = """
import socket, sys
family, kind, address, canary = int(sys.argv[1]), int(sys.argv[2]), eval(sys.argv[3]), sys.argv[4].encode()
try:
    server = socket.socket(family, kind)
    server.bind(address)
except OSError as error:
    sys.exit(print(error.errno, flush=True))
if kind == socket.SOCK_STREAM:
    server.listen(64)
print(0, flush=True)
while True:
    if kind == socket.SOCK_STREAM:
        peer = server.accept()[0]
        peer.sendall(canary)
        peer.close()
    else:
        _, peer = server.recvfrom(100)
        server.sendto(canary, peer)
"""


def serve(family, kind, address, canary):
    arguments = [str(int(family)), str(int(kind)), repr(address), canary]
    server = subprocess.Popen([sys.executable, "-c", SERVER, *arguments], stdout=subprocess.PIPE)
    number = int(server.stdout.readline() or errno.ECHILD)
    if number in (*REFUSALS, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
        raise Closed(f"bind: {errno.errorcode[number]}")
    if number:
        raise OSError(number, "serve")
    KEEP.append(server)


def ask(family, kind, address):
    client = socket.socket(family, kind)
    client.settimeout(1)
    try:
        client.connect(address)
        if kind == socket.SOCK_DGRAM:
            client.send(b"?")
        return client.recv(1000).decode()
    except OSError:
        return ""
    finally:
        client.close()


def server(name, family, kind, address, closed=False):
    def find(canary):
        return f"{address} answers" if canary in ask(family, kind, address) else None

    members = dict(
        plant=staticmethod(lambda canary: serve(family, kind, address, canary)),
        look=staticmethod(find),
    )
    probe("sockets", closed=closed)(type(name, (), members))


server("unix_abstract", socket.AF_UNIX, socket.SOCK_STREAM, "\0bleed")
server("unix_path", socket.AF_UNIX, socket.SOCK_STREAM, "/tmp/bleed.socket")
server("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 47001))
server("tcp_any", socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 47002))
server("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 47003), closed=True)
server("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 47004), closed=True)


@probe("sockets")
class port_in_use:
    """A port tells of its owner by being taken. The canary is the port."""

    def port(canary):
        return 20_000 + int(hashlib.sha256(canary.encode()).hexdigest(), 16) % 20_000

    def plant(canary):
        serve(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port_in_use.port(canary)), canary)

    def look(canary):
        try:
            socket.create_server(("127.0.0.1", port_in_use.port(canary))).close()
        except OSError as error:
            return error


@probe("sockets")
class listing:
    """Ports and names of everyone in /proc/net."""

    def plant(canary):
        serve(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{canary}", canary)

    def look(canary):
        code = "import glob; print([open(p).read() for p in glob.glob('/proc/net/*') if p.endswith('unix')])"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        if canary in said:
            return "/proc/net/unix"
        return "it answers" if canary in ask(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{canary}") else None


# State of the interpreter.

def state(name, put, get):
    """`put` stores the canary, `get` yields what may hold it."""
    def find(canary):
        held = get()
        return "it is there" if canary in (held if isinstance(held, str) else repr(held)) else None

    probe("interpreter", reach="interpreter", copied=True)(
        type(name, (), dict(plant=staticmethod(put), look=staticmethod(find)))
    )


def imported(name):
    return __import__(name, fromlist=["_"])


def number(canary, bits=20):
    return int(hashlib.sha256(canary.encode()).hexdigest(), 16) % (1 << bits) + 1000


def counted(name, put, get):
    """State that holds a number only: one made of the canary."""
    def find(canary):
        return f"it is {get()}" if get() == number(canary) else None

    probe("interpreter", reach="interpreter", copied=True)(type(name, (), dict(
        plant=staticmethod(lambda canary: put(number(canary))), look=staticmethod(find),
    )))


def ipython():
    from IPython import get_ipython

    return get_ipython()


def patch_builtins(canary):
    import builtins

    original = builtins.len

    def len(thing):
        return original(thing)

    len.__doc__ = canary
    builtins.len = len


def handle_signal(canary):
    def handler(number, frame):
        pass

    handler.__doc__ = canary
    signal.signal(signal.SIGUSR1, handler)


def add_module(canary):
    import types

    sys.modules["bleed_module"] = types.ModuleType("bleed_module", canary)


def at_exit(canary):
    import atexit

    # Nothing lists the hooks: a child runs its own to the end.
    atexit.register(os.write, 1, f"atexit {canary}\n".encode())


def exit_hooks():
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, 1)
        import atexit

        # At its end, the shell goes through all cells that it counted.
        ipython().execution_count = ipython().cell_count = 1

        try:
            atexit._run_exitfuncs()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        text = said.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return text


def log_handler(canary):
    import logging

    handler = logging.NullHandler()
    handler.set_name(canary)
    logging.getLogger().addHandler(handler)


def numpy_option(canary):
    imported("numpy").set_printoptions(nanstr=canary)


def run_in_shell(canary):
    ipython().user_ns["session_secret"] = canary


def remember_input(canary):
    history = ipython().history_manager
    history.input_hist_raw.append(canary)
    history.input_hist_parsed.append(canary)


def inputs():
    history = ipython().history_manager
    return [history.input_hist_raw, history.input_hist_parsed, history.output_hist]


def namespace():
    return {key: value for key, value in ipython().user_ns.items() if isinstance(value, str)}


def add_magic(canary):
    def magic(line):
        return canary

    magic.__doc__ = canary
    ipython().register_magic_function(magic, magic_name="bleed")


def threads_local(canary):
    import threading

    threading.current_thread().name = canary


state("builtins", patch_builtins, lambda: __import__("builtins").len.__doc__ or "")
state("modules", add_module, lambda: getattr(sys.modules.get("bleed_module"), "__doc__", ""))
state("module_attribute", lambda canary: setattr(json, "bleed", canary), lambda: getattr(json, "bleed", ""))
state("environ", lambda canary: os.environ.update(BLEED=canary), lambda: dict(os.environ))
state("putenv", lambda canary: os.putenv("BLEED2", canary),
      lambda: subprocess.run(["env"], capture_output=True, text=True).stdout)
state("sys_path", lambda canary: sys.path.append(f"/{canary}"), lambda: sys.path)
state("meta_path", lambda canary: sys.meta_path.append(type(canary, (), {"find_spec": lambda *_: None})),
      lambda: sys.meta_path)
state("argv", lambda canary: sys.argv.append(canary), lambda: sys.argv)
state("signal_handler", handle_signal, lambda: getattr(signal.getsignal(signal.SIGUSR1), "__doc__", "") or "")
state("atexit", at_exit, exit_hooks)
state("logging", log_handler, lambda: [handler.name for handler in imported("logging").getLogger().handlers])
state("warnings", lambda canary: imported("warnings").filterwarnings("ignore", message=canary),
      lambda: imported("warnings").filters)
state("pandas_options", lambda canary: imported("pandas").set_option("display.encoding", canary),
      lambda: imported("pandas").get_option("display.encoding"))
state("numpy_options", numpy_option, lambda: imported("numpy").get_printoptions())
state("matplotlib_params", lambda canary: imported("matplotlib").rcParams.update({"svg.hashsalt": canary}),
      lambda: imported("matplotlib").rcParams["svg.hashsalt"])
state("thread_name", threads_local, lambda: imported("threading").enumerate())
state("shell_namespace", run_in_shell, namespace)
state("shell_history", remember_input, inputs)
state("shell_magics", add_magic, lambda: getattr(ipython().find_line_magic("bleed"), "__doc__", "") or "")
counted("gc_threshold", lambda n: imported("gc").set_threshold(n), lambda: imported("gc").get_threshold()[0])
counted("recursion_limit", sys.setrecursionlimit, sys.getrecursionlimit)
counted("socket_timeout", socket.setdefaulttimeout, lambda: socket.getdefaulttimeout())
counted("decimal_precision", lambda n: setattr(imported("decimal").getcontext(), "prec", n),
        lambda: imported("decimal").getcontext().prec)


@probe("interpreter", reach="interpreter", copied=True)
class execution_count:
    def plant(canary):
        ipython().execution_count = number(canary) * 1000

    def look(canary):
        count = ipython().execution_count
        return count if count // 1000 == number(canary) else None


@probe("interpreter", reach="interpreter", copied=True)
class time_zone:
    def plant(canary):
        os.environ["TZ"] = f"<{canary[-6:]}>0"
        time.tzset()

    def look(canary):
        return time.tzname[0] if time.tzname[0] == canary[-6:] else None


@probe("interpreter", reach="interpreter", specific=False)
class umask:
    def plant(canary):
        os.umask(0o135)

    def look(canary):
        now = os.umask(0o022)
        os.umask(now)
        return oct(now) if now == 0o135 else None


@probe("interpreter", reach="interpreter")
class resource_limit:
    def plant(canary):
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (number(canary, 8) - 500, 1024))

    def look(canary):
        import resource

        now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return now if now == number(canary, 8) - 500 else None


@probe("interpreter", reach="interpreter", specific=False)
class priority:
    def plant(canary):
        os.nice(7)

    def look(canary):
        return os.nice(0) if os.nice(0) == 7 else None


@probe("interpreter", reach="interpreter", specific=False)
class blocked_signals:
    def plant(canary):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    def look(canary):
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        return blocked if signal.SIGUSR2 in blocked else None


@probe("interpreter", reach="interpreter")
class process_name:
    def plant(canary):
        libc.prctl(15, canary[-15:].encode(), 0, 0, 0)

    def look(canary):
        with opened("/proc/self/comm") as file:
            return "comm" if file.read().strip() == canary[-15:] else None


# Memory: everything that this process can read of itself.

MARK = bytes(byte ^ 0x5A for byte in bytes.fromhex("1810170b60"))


def scan(digest):
    """Looks for a mark and 32 digits whose digest is given. The mark alone is
    everywhere in whoever looks; the digits are nowhere unless they leaked."""
    pattern = re.compile(re.escape(MARK) + rb"([0-9a-f]{32})")
    seen = 0
    with opened("/proc/self/maps") as file:
        areas = [line.split(maxsplit=5) for line in file]
    with opened("/proc/self/mem", "rb", buffering=0) as memory:
        for area in areas:
            start, end = (int(part, 16) for part in area[0].split("-"))
            if area[1][0] != "r" or (len(area) > 5 and area[5].strip() in ("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                continue
            at, tail = start, b""
            while at < end:
                try:
                    memory.seek(at)
                    chunk = memory.read(min(1 << 20, end - at))
                except OSError:
                    break
                if not chunk:
                    break
                seen += len(chunk)
                for match in pattern.finditer(tail + chunk):
                    if hashlib.sha256(match[1]).hexdigest() == digest:
                        return f"at {at:#x} in {area[5].strip() if len(area) > 5 else 'memory'}"
                tail = chunk[-64:]
                at += len(chunk)
    if seen < 1 << 20:
        raise OSError(f"only {seen} bytes could be read")


@probe("memory", reach="interpreter", copied=True, kind="memory")
class other_session:
    def plant(canary):
        KEEP.append([bytearray(MARK + canary.encode() + b"%d" % copy) for copy in range(64)])

    def look(digest):
        return scan(digest)


@probe("memory", reach="interpreter", kind="memory", specific=False)
class engine_environment(other_session):
    pass


@probe("memory", reach="interpreter", kind="memory", specific=False)
class engine_heap(other_session):
    pass


@probe("memory", reach="interpreter", kind="memory", specific=False)
class engine_arguments(other_session):
    pass


@probe("memory", reach="interpreter", copied=False)
class fresh_memory:
    """What the kernel hands out is empty: 256 MiB are asked for and read."""

    def plant(canary):
        KEEP.append(bytearray(canary.encode() * (32 << 20 >> 5)))

    def look(canary):
        import mmap

        if any(isinstance(kept, bytearray) and canary.encode() in kept for kept in KEEP):
            return "own memory"
        with mmap.mmap(-1, 256 << 20) as area:
            return "fresh memory" if area.find(canary.encode()) >= 0 else None


# Randomness.

def source(name, value, rig, kind="draw"):
    probe("random", reach="interpreter", kind=kind)(
        type(name, (), dict(draw=staticmethod(value), rig=staticmethod(rig)))
    )


def numpy_random():
    return imported("numpy.random")


def rig_urandom():
    import random

    os.urandom = random._urandom = lambda count: bytes(count)


def rig_uuid1():
    import random
    import uuid

    random.seed(1)
    uuid._generate_time_safe, uuid._node = None, 5


def uuid1():
    import uuid

    made = uuid.uuid1()
    return f"{made.node:x} {made.clock_seq:x}"


def temporary_name():
    import tempfile

    return next(tempfile._get_candidate_names())


def rig_tempfile():
    import random
    import tempfile

    names = tempfile._RandomNameSequence()
    names._rng, names._rng_pid = random.Random(1), os.getpid()
    tempfile._name_sequence = names


def authkey():
    import multiprocessing

    return bytes(multiprocessing.current_process().authkey).hex()


def rig_authkey():
    import multiprocessing

    multiprocessing.current_process().authkey = b"same"


def constant(module, name, value):
    return lambda: setattr(imported(module), name, lambda *_, **__: value)


def hash_seed():
    return f"{hash('belljar')} {hash(b'x')}"


def layout():
    with opened("/proc/self/maps") as file:
        return [line.split("-")[0] for line in file if "libc.so" in line or "[stack]" in line]


def at_random():
    libc.getauxval.restype = ctypes.c_ulong
    return ctypes.string_at(libc.getauxval(25), 16).hex()


source("random", lambda: imported("random").getrandbits(128), lambda: imported("random").seed(1))
source("random_instance", lambda: imported("random").Random().getrandbits(128),
       constant("random", "Random", imported("random").Random(1)))
source("numpy_global", lambda: numpy_random().bytes(16).hex(), lambda: numpy_random().seed(1))
source("numpy_generator", lambda: numpy_random().default_rng().bytes(16).hex(),
       lambda: setattr(numpy_random(), "default_rng", lambda make=numpy_random().default_rng: make(1)))
source("sklearn_default", lambda: numpy_random().mtrand._rand.bytes(16).hex(),
       lambda: numpy_random().mtrand._rand.seed(1))
source("uuid1", uuid1, rig_uuid1)
source("uuid4", lambda: imported("uuid").uuid4().hex, rig_urandom)
source("tempfile", temporary_name, rig_tempfile)
source("urandom", lambda: os.urandom(16).hex(), rig_urandom)
source("secrets", lambda: imported("secrets").token_hex(16), rig_urandom)
source("ssl", lambda: imported("ssl").RAND_bytes(16).hex(), constant("ssl", "RAND_bytes", bytes(16)))
source("authkey", authkey, rig_authkey)
# Documented: interpreters of one zygote have these in common.
source("hash_seed", hash_seed, lambda: None, kind="layout")
source("address_layout", layout, lambda: None, kind="layout")
source("kernel_random", at_random, lambda: None, kind="layout")
