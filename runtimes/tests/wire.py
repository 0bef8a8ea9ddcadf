"""Starts a runtime over a socket pair and speaks its frames."""

import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

RUNTIMES = Path(__file__).resolve().parent.parent
# Only to end a test that hangs.
PATIENCE = float(os.environ.get("BELLJAR_TEST_PATIENCE") or 60)


def python_command():
    return shlex.split(os.environ.get("BELLJAR_TEST_PYTHON") or shlex.quote(sys.executable))


def python_sources():
    folder = RUNTIMES / "python" / "belljar"
    return {path.stem: path.read_text() for path in folder.glob("*.py")}


def python_boot(role, config=None):
    return {"sources": python_sources(), "role": role, "config": config or {}}


def start(command, descriptor, environment=None):
    """Runs `command` with `descriptor` as its descriptor 3."""
    def place():
        os.dup2(descriptor, 3)
        # Nothing else may leak in: a zygote refuses to start with open files.
        for name in os.listdir("/proc/self/fd"):
            try:
                os.set_inheritable(int(name), int(name) <= 3)
            except OSError:
                continue

    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=place, close_fds=False, env={**os.environ, **(environment or {})},
    )


def framed(message):
    body = json.dumps(message).encode()
    return len(body).to_bytes(4, "little") + body


class Wire:
    """The host's end of a context."""

    def __init__(self, sock, process=None):
        self.sock, self.process = sock, process
        self.sock.settimeout(PATIENCE)
        self.unread = b""
        self.cells = 0

    def send(self, message):
        self.sock.sendall(framed(message))

    def receive(self):
        while len(self.unread) < 4 or len(self.unread) < 4 + int.from_bytes(self.unread[:4], "little"):
            chunk = self.sock.recv(1 << 20)
            if not chunk:
                raise EOFError("the context closed its end")
            self.unread += chunk
        end = 4 + int.from_bytes(self.unread[:4], "little")
        body, self.unread = self.unread[4:end], self.unread[end:]
        # Strict, as the host's parser is.
        return json.loads(body.decode("utf-8"), parse_constant=lambda name: 1 / 0)

    def until(self, kind):
        events = []
        while not events or events[-1]["ev"] != kind:
            events.append(self.receive())
        return events

    def begin(self, code, **options):
        self.cells += 1
        self.send({"op": "run", "id": self.cells, "code": code, "store": True, **options})

    def run(self, code, **options):
        self.begin(code, **options)
        return Outcome(self.until("done"))

    def ask(self, operation, answer, **fields):
        self.send({"op": operation, **fields})
        return self.until(answer)[-1]

    def close(self):
        self.sock.close()
        if self.process:
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                pipe.close()


class Outcome:
    def __init__(self, events):
        self.events = events
        self.done = events[-1]

    def all(self, kind):
        return [event for event in self.events if event["ev"] == kind]

    def text(self, kind="stdout"):
        return "".join(event["text"] for event in self.all(kind))

    @property
    def error(self):
        return (self.all("error") or [None])[0]

    @property
    def result(self):
        return (self.all("result") or [None])[0]

    @property
    def plain(self):
        return self.result and self.result["data"]["text/plain"]


def python_context():
    ours, theirs = socket.socketpair()
    boot = (RUNTIMES / "python" / "boot.py").read_text()
    process = start([*python_command(), "-c", boot], theirs.fileno())
    theirs.close()
    wire = Wire(ours, process)
    wire.send(python_boot("context"))
    wire.ready = wire.receive()
    return wire


def rest(pid):
    """Waits until no signal is on its way to a process and it waits for a message again."""
    def rests():
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":", 1) for line in file)
        pending = int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)
        return not pending and status["State"].split()[0] == "S"

    wait_until(rests)


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("the condition never held")
        time.sleep(0.005)


class Zygote:
    """The host's end of a zygote."""

    def __init__(self, warm="", shim=None):
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(PATIENCE * 2)
        boot = (RUNTIMES / "python" / "boot.py").read_text()
        self.process = start([*python_command(), "-c", boot], theirs.fileno())
        theirs.close()
        config = {"warm": warm, "shim": shim, "env": {"LANG": "C.UTF-8"}}
        data = framed(python_boot("zygote", config))
        for at in range(0, len(data), 65536):
            self.sock.send(data[at:at + 65536])
        self.ready = json.loads(self.sock.recv(65536))

    def fork(self):
        ours, theirs = socket.socketpair()
        socket.send_fds(self.sock, [b"fork"], [theirs.fileno()])
        theirs.close()
        wire = Wire(ours)
        wire.ready = wire.receive()
        return wire

    def close(self):
        Wire(self.sock, self.process).close()


def node_command():
    return shlex.split(os.environ.get("BELLJAR_TEST_NODE") or "node")


def node_context():
    ours, theirs = socket.socketpair()
    folder = RUNTIMES / "javascript"
    process = start([*node_command(), "-e", (folder / "boot.js").read_text()], theirs.fileno())
    theirs.close()
    wire = Wire(ours, process)
    config = {"datasets": (folder / "datasets.js").read_text()}
    wire.send({"source": (folder / "context.js").read_text(), "role": "context", "config": config})
    wire.ready = wire.receive()
    return wire


def inside():
    """What runs a command in the template; nothing: on this host."""
    return shlex.split(os.environ.get("BELLJAR_TEST_INSIDE") or "")


class Fields(Wire):
    """The host's end of a context that reads fields instead of JSON.

    It writes to its own standard streams, so those are part of what a cell gave.
    """

    def __init__(self, sock, process, framed):
        super().__init__(sock, process)
        self.framed = framed
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)

    def begin(self, code, env=None):
        self.cells += 1
        env = env or {}
        fields = ["run", str(self.cells), code, str(len(env)), *(text for pair in env.items() for text in pair)]
        body = "".join(field + "\0" for field in fields).encode()
        self.sock.sendall(len(body).to_bytes(4, "little") + body if self.framed else body)

    def run(self, code, **options):
        self.begin(code, **options)
        return self.finish()

    def wait_for(self, text):
        """Waits until a cell has printed this, to its stream or as an event."""
        said = ""

        def is_said():
            nonlocal said
            said += (self.process.stdout.read() or b"").decode()
            if self.unread or select.select([self.sock], [], [], 0)[0]:
                said += self.receive().get("text", "")
            return text in said

        wait_until(is_said)

    def finish(self):
        events = self.until("done")
        raw = [("stdout", self.process.stdout.read()), ("stderr", self.process.stderr.read())]
        return Outcome([{"ev": kind, "text": data.decode()} for kind, data in raw if data] + events)


def fields_context(language):
    ours, theirs = socket.socketpair()
    read = lambda name: (RUNTIMES / language / name).read_text()
    if language == "bash":
        command, first = ["/bin/bash", "--noprofile", "--norc", "-c", read("boot.sh")], read("context.sh").encode() + b"\0"
    elif language == "r":
        source = read("context.R").encode()
        command = ["/usr/bin/R", "--vanilla", "--no-echo", "-e", read("boot.R").rstrip()]
        first = len(source).to_bytes(4, "little") + source
    else:
        first = read("Context.java").encode()
        command = ["/bin/sh", "-c", read("boot.sh"), "sh", "/usr/bin/java", str(len(first))]
    process = start([*inside(), *command], theirs.fileno())
    theirs.close()
    wire = Fields(ours, process, framed=language != "bash")
    wire.sock.sendall(first)
    wire.ready = wire.receive()
    # What it said about itself while it started.
    process.stderr.read()
    return wire
