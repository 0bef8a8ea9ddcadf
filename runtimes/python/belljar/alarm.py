"""A timer that shows the unfinished line of a cell that went on to wait.

There must be no thread in an idle context (it could not be forked), and
SIGALRM belongs to user code. So this is a POSIX timer with a real-time signal
for the main thread. Where the kernel refuses it, `arm` answers `False` and
the caller writes at once.
"""

import ctypes
import signal
import threading

DELAY = 0.05
SIGNAL = signal.SIGRTMAX - 1
SIGEV_THREAD_ID = 4
CLOCK_MONOTONIC = 1


class Event(ctypes.Structure):
    # struct sigevent, 64 bytes.
    _fields_ = [
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("rest", ctypes.c_byte * 44),
    ]


class Times(ctypes.Structure):
    # struct itimerspec: the interval, then the first expiry.
    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "in_s", "in_ns")]


libc = ctypes.PyDLL(None)
try:
    timer_create, timer_settime = libc.timer_create, libc.timer_settime
    timer_create.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    timer_settime.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
except AttributeError:
    timer_create = timer_settime = None


class Alarm:
    def __init__(self, handler):
        self._handler = handler
        self._timer = ctypes.c_void_p()
        self._event = Event(signo=SIGNAL, notify=SIGEV_THREAD_ID)
        self._soon = Times(in_ns=int(DELAY * 1e9))
        self._never = Times()
        # Pointers made once: a forked child should not have to make objects.
        self._pointers = [ctypes.addressof(x) for x in (self._timer, self._event, self._soon, self._never)]
        self._made = False
        self._armed = False
        self._usable = timer_create is not None

    def install(self):
        """Takes the signal. System calls of user code are restarted."""
        signal.signal(SIGNAL, self._fired)
        signal.siginterrupt(SIGNAL, False)

    def arm(self):
        """Makes the handler run soon; `False` if that is not possible."""
        if self._armed:
            return True
        if not self._usable or not (self._made or self._make()):
            return False
        self._armed = timer_settime(self._timer, 0, self._pointers[2], None) == 0
        return self._armed

    def disarm(self):
        if self._armed:
            self._armed = False
            timer_settime(self._timer, 0, self._pointers[3], None)

    def forget(self):
        """Timers are not copied with the memory of a process."""
        self._made = self._armed = False

    def _make(self):
        self._event.thread = threading.main_thread().native_id
        self._made = timer_create(CLOCK_MONOTONIC, self._pointers[1], self._pointers[0]) == 0
        self._usable = self._made
        return self._made

    def _fired(self, number, frame):
        self._armed = False
        self._handler(number, frame)
