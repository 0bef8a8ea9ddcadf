"""Where a user works: a directory, a shell, a terminal and servers that end with it."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import urllib.error
import urllib.request

from script import Wrong, is_so
from server import alive, descendants, given, groups

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The longest time for one command. No step asks how long anything took.
SECONDS = 300
# Settings of a user from before are no part of a first hour.
FOREIGN = ("E2B_", "NO_COLOR", "CLICOLOR", "BELLJAR_DATA", "BELLJAR_STATE", "BELLJAR_CASE_LOG", "BELLJAR_CONFIG")


class Ran:
    """A command that has ended, and what it printed."""

    def __init__(self, command, status, out, err=""):
        self.command, self.status, self.out, self.err = command, status, out, err

    def everything(self):
        return f"{self.out}{self.err}"

    def told(self):
        """For people who look at a failure."""
        return f"status {self.status} of `{self.command}`:\n{self.everything()[-3000:]}"

    def ends(self, status=0):
        is_so(self.status == status, f"status {status}", self.told())
        return self

    def prints(self, text):
        is_so(self.out == text, f"standard output {text!r}", self.told())
        return self

    def says(self, *parts):
        for part in parts:
            is_so(part in self.everything(), f"the words `{part}`", self.told())
        return self

    def hides(self, *parts):
        for part in parts:
            is_so(part not in self.everything(), f"nothing with `{part}`", self.told())
        return self

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            raise Wrong("one JSON document", self.told()) from None

    def lines(self):
        return self.out.splitlines()


class Server:
    """A program that runs until its place is left."""

    def __init__(self, place, name, command):
        self.command, self.log = command, place.folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=place.work, env=place.environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def said(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, what, found):
        """Waits until `found` gives something, and returns that."""
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError):
                if result := found():
                    return result
            if self.process.poll() is not None:
                raise Wrong(what, f"`{self.command}` ended with {self.process.returncode}:\n{self.said()[-3000:]}")
            if time.monotonic() > deadline:
                raise Wrong(what, f"nothing of it after {SECONDS} s:\n{self.said()[-3000:]}")
            time.sleep(0.1)

    def stop(self, how=signal.SIGINT):
        """Ends it as Ctrl-C does. Returns its status and what it left behind, in words."""
        before = descendants(self.process.pid)
        cgroups = groups([self.process.pid, *before])
        left = []
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            left.append("it did not end within 60 s")
            self.process.kill()
            self.process.wait()
        deadline = given() + 10
        while (remains := [*alive(before), *filter(os.path.exists, cgroups)]) and given() < deadline:
            time.sleep(0.1)
        return self.process.returncode, left + remains


class Place:
    def __init__(self, belljar, sdk=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="belljar-tryout-"))
        self.work = self.folder / "work"
        programs = self.folder / "bin"
        for folder in (self.work, programs):
            folder.mkdir()
        # The user ids of sandboxes and of PostgreSQL must be able to pass through.
        for folder in (self.folder, self.work):
            folder.chmod(0o711)
        (programs / "belljar").symlink_to(pathlib.Path(belljar).resolve())
        cache = pathlib.Path(os.environ.get("BELLJAR_CACHE") or pathlib.Path.home() / ".cache" / "belljar")
        self.python = sdk and sdk / "python" / "bin" / "python"
        self.modules = sdk and sdk / "javascript" / "node_modules"
        path = [programs, *([self.python.parent] if sdk else []), os.environ["PATH"], cache / "tools" / "bin"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self.environment = clean | {
            "PATH": ":".join(map(str, path)),
            "BELLJAR_DATA": str(self.folder / "data"),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        shutil.copytree(ROOT / "examples", self.work / "examples")
        self.servers = []
        # A user tidies up before the servers end.
        self.at_the_end = []

    def write(self, name, content):
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def read(self, name):
        path = self.work / name
        is_so(path.is_file(), f"a file `{name}`", f"the files {sorted(os.listdir(self.work))}")
        return path.read_bytes()

    def sh(self, command, **variables):
        """What a shell prints for a command line."""
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=self.work, env=self.environment | variables, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise Wrong(f"an end of `{command}`", f"nothing after {SECONDS} s:\n{out}{err}") from None
        return Ran(command, process.returncode, out, err)

    def python_says(self, name, code):
        """What a program of the user's own prints; it must succeed."""
        self.write(name, code)
        return self.sh(f"python {name}").ends(0)

    def terminal(self, command, columns=80, talk=(), **variables):
        """The same at a terminal of that width. `talk` has what is waited for and what is typed then."""
        size = struct.pack("HHHH", 40, columns, 0, 0)
        child, terminal = pty.fork()
        if child == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.chdir(self.work)
            os.execvpe("bash", ["bash", "-c", command], self.environment | variables)
        seen, talk, heard = b"", list(talk), 0
        deadline = time.monotonic() + SECONDS
        while True:
            if not select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
                os.killpg(child, signal.SIGKILL)
                break
            try:
                data = os.read(terminal, 65536)
            except OSError:
                # The end of a terminal is an error.
                data = b""
            if not data:
                break
            seen += data
            while talk and talk[0][0] in seen[heard:]:
                awaited, typed = talk.pop(0)
                heard = seen.index(awaited, heard) + len(awaited)
                os.write(terminal, typed)
        os.close(terminal)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text = seen.decode(errors="replace").replace("\r\n", "\n")
        is_so(not talk, f"`{talk and talk[0][0]}` at a terminal", text[-3000:])
        return Ran(command, status, text)

    def serve(self, name, command):
        server = Server(self, name, command)
        self.servers.append(server)
        return server

    def leave(self):
        """Ends servers that run still. Returns what any of them left behind."""
        left = []
        for act in self.at_the_end:
            # A server that is gone cannot be asked; its step has failed.
            with contextlib.suppress(OSError, Wrong):
                act()
        for server in reversed(self.servers):
            if server.process.poll() is None:
                left += server.stop()[1]
        shutil.rmtree(self.folder, ignore_errors=True)
        return left


def plain(text):
    """Text of a terminal without colours."""
    out, escape = [], False
    for letter in text:
        if letter == "\x1b":
            escape = True
        elif not escape:
            out.append(letter)
        elif letter.isalpha():
            escape = False
    return "".join(out)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.text = body.decode(errors="replace")

    def json(self):
        try:
            return json.loads(self.text)
        except ValueError:
            raise Wrong("a JSON document", f"status {self.status}: {self.text[:2000]}") from None

    def is_a(self, status):
        is_so(self.status == status, f"status {status}", f"status {self.status}: {self.text[:2000]}")
        return self


def ask(method, url, body=None, key=None, headers=()):
    """An HTTP request; every status is an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, method=method, data=data, headers=dict(headers))
    if key:
        request.add_header("X-API-Key", key)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=SECONDS) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


def remove_templates(url, key):
    """What a tenant has built lies in the store, which all servers of this machine share."""
    for template in ask("GET", f"{url}/templates", key=key).is_a(200).json():
        ask("DELETE", f"{url}/templates/{template['templateID']}", key=key)
