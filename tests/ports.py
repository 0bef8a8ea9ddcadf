"""Ports for servers that have to be told theirs. The suites in Rust do the same (tests/testkit)."""

import fcntl
import os
import random
import socket
import tempfile

# Below those that the kernel gives to clients: it would give a port that is free for a moment to any of them.
FIRST, COUNT = 20_000, 12_000
# Locked for as long as this program runs, so that no other test gets the same.
_locks = []


def free_port():
    for _ in range(10_000):
        port = FIRST + random.randrange(COUNT)
        lock = open(os.path.join(tempfile.gettempdir(), f"belljar-test-port-{port}"), "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("0.0.0.0", port))
        except OSError:
            lock.close()
            continue
        _locks.append(lock)
        return port
    raise SystemExit("no port is free")
