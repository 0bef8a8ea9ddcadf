"""Whole sandboxes outlive a server: paused with their memory, there again after it was stopped or killed."""

import json
import pathlib
import signal
import urllib.error
import urllib.request

from server import Server


class Client:
    """Our own API, as plain as it comes."""

    def __init__(self, server):
        self.server = server

    def ask(self, method, path, body=None, status=None):
        headers = {"X-API-KEY": self.server.key, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.server.api}{path}", method=method, headers=headers, data=data)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                found, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            found, text = error.code, error.read()
        assert found == (status or found) and (status or found < 400), f"{method} {path}: {found} {text!r}"
        return json.loads(text) if text else None

    def cell(self, sandbox, code):
        ran = self.ask("POST", f"/v1/sandboxes/{sandbox}/contexts/python/cells", {"code": code})
        assert not ran.get("error"), ran
        return ran["stdout"].strip()


def memories(server):
    return sorted((server.folder / "data" / "sandboxes").glob("*.memory"))


def check(server):
    client = Client(server)
    made = [client.ask("POST", "/v1/sandboxes", {"timeout_seconds": 600})["id"] for _ in range(3)]
    kept, ended, runs = made
    for sandbox in made:
        client.cell(sandbox, f"import os; x = {sandbox!r}; print(x)")
    client.ask("POST", f"/v1/sandboxes/{kept}/calls", {"script": "echo kept > /tmp/file"})
    for sandbox in (kept, ended):
        client.ask("POST", f"/v1/sandboxes/{sandbox}/pause")
    found = memories(server)
    assert [path.stem for path in found] == sorted([kept, ended]), found
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in found), "others may look into the memory of a sandbox"

    for word in (signal.SIGTERM, signal.SIGKILL):
        server.process.send_signal(word)
        server.process.wait(60)
        server.start()
        server.wait()
        shown = {entry["id"]: entry["state"] for entry in client.ask("GET", "/v1/sandboxes")["items"]}
        assert shown == dict.fromkeys((kept, ended), "paused"), f"after {word.name}: {shown}"
    reasons = {entry["id"]: entry["reason"] for entry in client.ask("GET", "/v1/ended")["items"]}
    assert reasons == {runs: "killed"}, reasons

    # One that is ended in its sleep leaves nothing.
    client.ask("DELETE", f"/v1/sandboxes/{ended}")
    assert [path.stem for path in memories(server)] == [kept], memories(server)
    client.ask("POST", f"/v1/sandboxes/{kept}/resume", {"timeout_seconds": 600})
    assert client.cell(kept, "print(x)") == kept, "the variable is gone"
    assert client.cell(kept, "print(open('/tmp/file').read())") == "kept"
    assert not memories(server), "what was on disk stayed there"

    forks = client.ask("POST", f"/v1/sandboxes/{kept}/fork", {"count": 2, "timeout_seconds": 60})["items"]
    assert all("sandbox" in fork for fork in forks), forks
    copies = [fork["sandbox"]["id"] for fork in forks]
    client.cell(copies[0], "x = 'changed'")
    assert [client.cell(sandbox, "print(x)") for sandbox in (kept, *copies)] == [kept, "changed", kept]
    random = "import random, uuid; print(os.urandom(16).hex(), random.random(), uuid.uuid4())"
    seen = [value for sandbox in (kept, *copies) for value in client.cell(sandbox, random).split()]
    assert len(seen) == len(set(seen)) == 9, f"copies agree on what nobody should guess: {seen}"

    # As long as its snapshot is there, a copy can be made of it.
    snapshot = client.ask("POST", f"/v1/sandboxes/{kept}/checkpoints")["id"]
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(60)
    server.start()
    server.wait()
    copy = client.ask("POST", f"/v1/checkpoints/{snapshot}/fork")["id"]
    assert client.cell(copy, "print(x)") == kept, "the snapshot lost its memory"
    client.ask("DELETE", f"/v1/checkpoints/{snapshot}")
    client.ask("DELETE", f"/v1/sandboxes/{copy}")


def run(executable, log, flags):
    """Returns what went wrong."""
    server = Server(executable, log, *flags)
    failed = []
    try:
        server.wait()
        server.warm(300)
        check(server)
    except AssertionError as error:
        failed.append(f"a whole sandbox after a restart: {error}; the log is in {log}")
    finally:
        left = server.stop()
    if not failed and not left:
        pathlib.Path(log).unlink()
    return failed + left
