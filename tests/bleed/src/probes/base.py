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
