"""Makes a fork cheaper: memory in large pages.

A fork copies an entry for every page of private memory, and the child's end gives
every one back. Of a page of 2 MB there is one entry. What a child writes to is
copied in pages of 4 KB all the same.
"""

import ctypes
import errno

HUGE = 2 << 20
COLLAPSE = 25  # MADV_COLLAPSE, Linux 6.1
# The kernel answers EAGAIN while one of the pages is in use.
ATTEMPTS = 3


def join():
    """Joins small pages of this process where 2 MB of them are together.

    Answers how many large ones came of it: none on a kernel that cannot.
    """
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    joined = 0
    for begin, end in held():
        for address in range(-(-begin // HUGE) * HUGE, end - HUGE + 1, HUGE):
            for _ in range(ATTEMPTS):
                if madvise(address, HUGE, COLLAPSE) == 0:
                    joined += 1
                    break
                if ctypes.get_errno() != errno.EAGAIN:
                    break
    return joined


def held():
    """Private memory of this process that is no file's and is mostly in use."""
    begin, end, is_plain = 0, 0, False
    try:
        with open("/proc/self/smaps") as lines:
            for line in lines:
                words = line.split()
                if words[0] == "Anonymous:":
                    used = int(words[1]) << 10
                    if is_plain and used * 2 >= end - begin >= HUGE:
                        yield begin, end
                elif not words[0].endswith(":"):
                    begin, end = (int(part, 16) for part in words[0].split("-"))
                    is_plain = words[1] == "rw-p" and (len(words) < 6 or words[5] == "[heap]")
    except OSError:
        return
