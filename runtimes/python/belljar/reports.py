"""What a guard has found, told to the model and to the host.

The model sees one line in the cell's standard error; the host gets the same as
data, as a display of its own media type. The same finding is told once in a
cell. Nothing here raises: a guard may be silent, but never in the way.
"""

import sys

MEDIA_TYPE = "application/vnd.belljar.guard+json"
VERSION = 1
# More than this in one cell help nobody.
LIMIT = 20

EMPTY_JOIN = "empty-join"
FAN_OUT = "fan-out"
KEY_MISMATCH = "key-mismatch"
CLOCK = "clock"


class Reports:
    def __init__(self, shell):
        self.shell = shell
        self.told = set()

    def begin(self):
        """A new cell: what was told before may be told again."""
        if self.told:
            self.told.clear()

    def tell(self, kind, message, advice, line=None, **facts):
        """Reports a finding, unless this cell has had the same."""
        if (kind, message) in self.told or len(self.told) >= LIMIT:
            return
        self.told.add((kind, message))
        place = "" if line is None else f" (line {line})"
        print(f"warning [{kind}]{place}: {message}. {advice}.", file=sys.stderr)
        record = {"version": VERSION, "kind": kind, "message": message, "advice": advice, "line": line, **facts}
        self.shell.emit("display", {MEDIA_TYPE: record}, {}, display_id=None, update=False)


def user_line(through=None):
    """Where user code stands that called, or `None` if a library did; files
    whose path contains `through` are passed over."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<belljar ") and (through is None or through not in name):
            break
        frame = frame.f_back
    if frame is None or not is_user_code(frame.f_code.co_filename):
        return None
    return frame.f_lineno


def is_user_code(name):
    return "/site-packages/" not in name and "/dist-packages/" not in name and not name.startswith(STANDARD)


STANDARD = (f"{sys.base_prefix}/lib/python", "<frozen ", "<__array_function__")
