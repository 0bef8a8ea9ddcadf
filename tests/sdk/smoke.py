"""What every version of the Python SDK must be able to do: hello world, and a static connect."""

import sys

import e2b

sandbox = e2b.Sandbox.create()
try:
    assert sandbox.commands.run("echo hello").stdout == "hello\n"
    sandbox.files.write("/home/user/note", "kept")
    other = e2b.Sandbox.connect(sandbox.sandbox_id)
    assert other.sandbox_id == sandbox.sandbox_id
    assert other.files.read("/home/user/note") == "kept"
    assert [entry.name for entry in other.files.list("/home/user") if entry.name == "note"]
    assert other.commands.run("cat note", cwd="/home/user").stdout == "kept"
    assert sandbox.is_running()
finally:
    killed = sandbox.kill()
assert killed is True
sys.stdout.write("ok\n")
