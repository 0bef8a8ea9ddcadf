"""Compares the output of a command with the one that a page shows.

Ids, times and measurements differ from run to run. Each counts as equal to another of
its kind, and the ids of the page are remembered: later commands of the page use them.
"""

import re

VARIES = (
    ("id", re.compile(r"\b[a-z2-7]{26}\b")),
    # The first column of a table of runs.
    ("id", re.compile(r"^[a-z2-7]{8}(?=  \d{4}-)")),
    ("id", re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")),
    ("digest", re.compile(r"\b[0-9a-f]{16}\b")),
    ("time", re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")),
    ("seconds", re.compile(r"\b\d+\.\d{3} s\b")),
    ("memory", re.compile(r"\b\d+ MB\b")),
)
# As many characters of an id as a command needs.
SHORT = 4


def _general(line):
    """The line with a name for each part that varies, and its ids."""
    ids = []
    changed = False
    for kind, pattern in VARIES:

        def name(found, kind=kind):
            nonlocal changed
            changed = True
            if kind == "id":
                ids.append(found[0])
            return f"<{kind}>"

        line = pattern.sub(name, line)
    # Columns are as wide as what is in them.
    return (" ".join(line.split()) if changed else line.rstrip()), ids


def differs(shown, printed, known):
    """Why the output is another one than the page shows, or None. Adds ids to `known`."""
    want = [_general(line) for line in shown.rstrip("\n").split("\n")] if shown.strip() else []
    have = [_general(line) for line in printed.rstrip("\n").split("\n")] if printed.strip() else []
    matched = _match(want, have)
    if matched is None:
        return f"the page shows:\n{shown.rstrip()}\nbut it prints:\n{printed.rstrip()}"
    for (_, ours), (_, theirs) in matched:
        known.update(zip(ours, theirs))
    return None


def _match(want, have):
    """Pairs of equal lines, or None. A line `…` stands for any lines."""
    if not want:
        return None if have else []
    if want[0][0] == "…":
        for skip in range(len(have) + 1):
            rest = _match(want[1:], have[skip:])
            if rest is not None:
                return rest
        return None
    if not have or want[0][0] != have[0][0]:
        return None
    rest = _match(want[1:], have[1:])
    return None if rest is None else [(want[0], have[0]), *rest]


def with_known_ids(command, known):
    """The command with the ids of this run instead of those of the page."""
    for ours, theirs in known.items():
        command = command.replace(ours, theirs)
        command = re.sub(rf"(?<![\w-]){re.escape(ours[:SHORT])}(?![\w-])", theirs, command)
    return command
