"""Prepares a shell once and forks contexts from it.

Everything a child would do first is done here before, so that its pages are
shared: imports, the shell, bytecode that adapts to its first runs, prototypes
of C functions. Nothing here may start a thread: `fork` copies only one.
"""

import ctypes
import gc
import json
import os
import platform
import socket
import sys

from . import DESCRIPTOR, identity, pages, serve, warm
from .channel import Channel

# What keeps libraries from starting threads of their own.
THREAD_LIMITS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    # The allocator inside pyarrow. What it gives back with MADV_DONTNEED it takes
    # for zeros later, which memory that was copied from elsewhere is not.
    "JE_ARROW_MALLOC_CONF": "background_thread:false,dirty_decay_ms:-1,muzzy_decay_ms:-1",
}
LIBRARY = 4
PACKET = 64 << 10
DESCRIPTORS = 16

_before = ctypes.pythonapi.PyOS_BeforeFork
_after_parent = ctypes.pythonapi.PyOS_AfterFork_Parent
_after_child = ctypes.pythonapi.PyOS_AfterFork_Child
for function in (_before, _after_parent, _after_child):
    function.argtypes, function.restype = [], None


def run(config):
    wire = socket.socket(fileno=DESCRIPTOR)
    os.environ.update(config.get("env") or {})
    ours = [name for name in THREAD_LIMITS if name not in os.environ]
    os.environ.update({name: THREAD_LIMITS[name] for name in ours})
    # Frames of the warm-up go nowhere.
    nowhere = os.open("/dev/null", os.O_RDWR)
    channel = Channel(nowhere)
    shell = serve.prepare(channel)
    if shell is None:
        return unfit(wire, "IPython cannot be imported")
    try:
        exec(compile(config.get("warm") or "", "<warm>", "exec"), {"__name__": "__warm__"})
    except BaseException as error:
        return unfit(wire, f"the template's warm source failed: {type(error).__name__}: {error}")
    warm.up(shell)
    for name in ours:
        # They only had to hold while libraries were loaded.
        os.environ.pop(name, None)
    os.close(nowhere)
    channel.descriptor = DESCRIPTOR
    channel.alarm.forget()
    release_fonts()
    gc.collect()
    opened = leftovers()
    if opened:
        return unfit(wire, f"the warm-up left files open: {', '.join(opened)}")
    threads = serve.count("/proc/self/task")
    if threads not in (1, None):
        return unfit(wire, f"the warm-up left {threads} threads, and only one survives a fork")
    fork = forker(config.get("shim"))
    identity.reseed()
    gc.collect()
    give_back()
    pages.join()
    gc.disable()
    gc.freeze()
    ready = {"ev": "ready", "version": platform.python_version(), "rss": resident()}
    wire.send(json.dumps(ready).encode())
    loop(wire, shell, fork)


def give_back():
    """Memory that the warm-up has freed would be copied by every fork."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    try:
        ctypes.PyDLL(None).malloc_trim(0)
    except AttributeError:
        # Another C library.
        pass


def release_fonts():
    """Fonts that were drawn with keep their files open; they are opened anew."""
    fonts = sys.modules.get("matplotlib.font_manager")
    if fonts is not None and hasattr(fonts, "_get_font"):
        fonts._get_font.cache_clear()


def leftovers():
    """What is open besides the standard streams, the socket and the library."""
    try:
        names = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []
    opened = []
    for name in names:
        try:
            if name > LIBRARY:
                opened.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            # The listing itself.
            continue
    return opened


def unfit(wire, reason):
    wire.send(json.dumps({"ev": "unfit", "reason": reason}).encode()[:PACKET])
    os._exit(1)


def loop(wire, shell, fork):
    channel = shell.channel
    while True:
        channel.keep = True
        pid = fork(wire)
        channel.keep = False
        if pid is None:
            os._exit(0)
        if pid == 0:
            # The stream is at descriptor 3 now; the packet socket is closed.
            wire.detach()
            context(shell)
        # What the next child will draw from. Done here, where nobody waits for
        # it: each child has a state that neither the zygote nor another keeps.
        identity.reseed()


def context(shell):
    """The first thing a child does. Does not return."""
    identity.fix_thread_id()
    shell.channel.interrupted = False
    os.set_inheritable(DESCRIPTOR, False)
    gc.enable()
    serve.serve(shell)


def forker(shim):
    """What waits for a request and forks for it: 0 in the child, None at the end."""
    if shim is None:
        return plain_fork
    library = ctypes.PyDLL(shim)
    receive, fork = library.belljar_receive, library.belljar_fork
    for function in (receive, fork):
        function.argtypes, function.restype = [ctypes.c_int], ctypes.c_int

    def forked(_wire):
        if receive(DESCRIPTOR) == -1:
            return None
        _before()
        pid = fork(0)
        if pid == 0:
            _after_child()
        else:
            _after_parent()
        return pid

    return forked


def plain_fork(wire):
    """For tests: no confinement, only the stream."""
    request, received, _flags, _address = socket.recv_fds(wire, PACKET, DESCRIPTORS)
    if not request:
        return None
    pid = os.fork()
    if pid == 0:
        os.dup2(received[0], DESCRIPTOR)
    for descriptor in received:
        os.close(descriptor)
    if pid:
        reap()
    return pid


def reap():
    """Collects children that ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def resident():
    """Resident bytes of this process."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
