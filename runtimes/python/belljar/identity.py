"""Makes a process that shares its memory with others a process of its own.

Contexts are forked from one zygote, and a live context can be copied into
another sandbox. Copies would draw the same random numbers and believe stale
facts about their threads and signals.
"""

import _signal
import ctypes
import hashlib
import os
import random
import resource
import signal
import sys
import threading
import time

from . import installed

PR_GET_TID_ADDRESS = 40

_libc = ctypes.PyDLL(None)
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int] + [ctypes.c_void_p] * 4
_address = ctypes.c_void_p()
_where = ctypes.addressof(_address)
_known_thread = threading.get_native_id()


def reseed(entropy=b""):
    """Gives every generator of random numbers that we know of a new state."""
    loaded = sys.modules
    seed = hashlib.sha512(os.urandom(64) + entropy).digest()
    random.seed(seed)
    if "numpy.random" in loaded:
        words = [int.from_bytes(seed[at:at + 4], "little") for at in range(0, 64, 4)]
        loaded["numpy.random"].seed(words)
    if "uuid" in loaded:
        uuid = loaded["uuid"]
        for name in [name for name in vars(uuid) if name.startswith("_last_timestamp")]:
            setattr(uuid, name, None)
        # A random node, marked as such by the multicast bit (RFC 9562). The C
        # library's own clock sequence would be common to all copies.
        uuid._node = int.from_bytes(os.urandom(6), "big") | 1 << 40
        uuid._generate_time_safe = None
    if "tempfile" in loaded:
        loaded["tempfile"]._name_sequence = None
    if "multiprocessing.process" in loaded:
        loaded["multiprocessing.process"].current_process().authkey = os.urandom(32)
    if "ssl" in loaded:
        loaded["ssl"].RAND_add(seed, 64.0)
    if "torch" in loaded:
        loaded["torch"].seed()


def settle():
    """After the memory came from elsewhere: makes the kernel's view match it."""
    for number in range(1, signal.NSIG):
        try:
            handler = _signal.getsignal(number)
            if callable(handler) or handler == _signal.SIG_IGN:
                _signal.signal(number, handler)
        except (OSError, ValueError):
            # SIGKILL, SIGSTOP and those the C library keeps.
            continue
    fix_thread_id()


def fix_thread_id():
    """The C library keeps its thread's id in memory and trusts it."""
    global _known_thread
    now = threading.get_native_id()
    if now == _known_thread:
        return
    if _prctl(PR_GET_TID_ADDRESS, _where, None, None, None) == 0 and _address.value:
        cached = ctypes.c_int.from_address(_address.value)
        # Another C library may keep something else at this address.
        if cached.value == _known_thread:
            cached.value = now
    _known_thread = now
    threading.main_thread()._set_native_id()


# Pending signals, message queues, niceness, real-time priority: gVisor has neither
# the limits nor what they are about, and refuses to set them. Linux never refuses
# to lower one.
UNKNOWN_TO_GVISOR = (11, 12, 13, 14)


def lower(number, value):
    """Limits can only be lowered, so one that is in force is left alone."""
    soft, hard = resource.getrlimit(number)
    if hard == resource.RLIM_INFINITY or value < hard:
        try:
            resource.setrlimit(number, (value, value))
        except ValueError:
            if number not in UNKNOWN_TO_GVISOR:
                raise


def wake(message):
    """Applies a `wake` message. Returns what went wrong, or `None`."""
    if message.get("copied", True):
        # One that was forked did both when it was, and nothing has run since.
        settle()
        reseed(bytes.fromhex(message.get("entropy") or ""))
    for number, value in message.get("rlimits") or ():
        lower(number, value)
    environment = message.get("env") or {}
    for name in message.get("unset") or ():
        os.environ.pop(name, None)
    os.environ.update(environment)
    if "TZ" in environment or "TZ" in (message.get("unset") or ()):
        time.tzset()
    installed.refresh()
    if message.get("cwd"):
        try:
            os.chdir(message["cwd"])
        except OSError as error:
            return f"cannot enter {message['cwd']}: {error.strerror}"
