# Looks through all objects for handles that the zygote might have opened. With
# "open" it has some of its own.
import gc, io, logging, socket, sqlite3, ssl, subprocess, sys, threading
import http.client

# What the warm-up froze is not listed otherwise.
gc.unfreeze()
if "open" in sys.argv:
    kept = [ssl.create_default_context(), sqlite3.connect(":memory:"), socket.socket(socket.AF_UNIX)]
kinds = (
    ssl.SSLContext, ssl.SSLObject, socket.socket, sqlite3.Connection, subprocess.Popen,
    http.client.HTTPConnection, logging.FileHandler, io.FileIO,
)
found = []
for thing in gc.get_objects():
    try:
        if not isinstance(thing, kinds):
            continue
    except Exception:
        continue
    if isinstance(thing, (io.FileIO, socket.socket)):
        try:
            number = thing.fileno()
        except ValueError:
            continue
        # Closed, or the streams that every process has.
        if number in (-1, 0, 1, 2, 3):
            continue
    found.append(type(thing).__name__)
if len(threading.enumerate()) > 1:
    found.append("threads")
print("BREACH handles: " + " ".join(sorted(set(found))) if found else "HELD no handle is open")
