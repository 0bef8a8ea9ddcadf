# args: <marker path on the host>
# OUT-05: results that run code in whoever loads them. Each would only create the marker
# file, and the host must find that nothing did.
import marshal
import os
import sys

marker = sys.argv[1] if len(sys.argv) > 1 else "/tmp/out05-marker"
work = "/tmp/out05"
os.makedirs(work, exist_ok=True)
command = f"touch {marker}".encode()
# Written by hand, as pickling here would import what it refers to.
pickled = b"cposix\nsystem\n(V" + command + b"\ntR."
results = {
    "result.pkl": pickled,
    "result.marshal": marshal.dumps(compile(f"open({marker!r}, 'w')", "result", "exec")),
    "result.yaml": b"!!python/object/apply:os.system [\"" + command + b"\"]\n",
    "result.json": b'{"__reduce__": ["os.system", ["' + command + b'"]], "__proto__": {"admin": true}}\n',
    "result.xml": b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r>&x;</r>\n',
    "result.ipynb": b'{"cells":[],"metadata":{"widgets":{"x":"!!python/name:os.system"}},"nbformat":4,"nbformat_minor":5}\n',
}
for name, data in results.items():
    with open(f"{work}/{name}", "wb") as file:
        file.write(data)
    sys.stdout.buffer.write(data + b"\n")
sys.stdout.flush()
print(f"HELD {len(results)} results in {work} and on the output; the host's marker decides", file=sys.stderr)
