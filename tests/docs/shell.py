"""One `bash` in which the commands of a page run, and the servers that they start."""

import os
import pathlib
import re
import secrets
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

KEY = re.compile(r"e2b_[0-9a-f]{40}")
# How a page writes the key that a server has printed.
PLACEHOLDER = re.compile(r"e2b_(?:\.\.\.|…)")
SERVER = re.compile(r"^belljar serve\b")


class Failed(Exception):
    pass


class Shell:
    def __init__(self, folder, environment, seconds):
        self.folder, self.seconds = pathlib.Path(folder), seconds
        self.key = self.server = None
        self.status = 0
        self.marker = secrets.token_hex(8)
        self.bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=self.folder, env=environment, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, command):
        """Its output and its exit status. A server goes to the background instead, and is ready afterwards."""
        if self.key:
            command = PLACEHOLDER.sub(self.key, command)
        if SERVER.match(command):
            return self.serve(command), 0
        text = self.folder / ".command"
        text.write_text(command)
        end = f"{self.marker}:"
        self.bash.stdin.write(
            f"docs_command=$(cat {text}); (exit {self.status}); eval \"$docs_command\" </dev/null 2>&1; "
            f"printf '\\n%s%s\\n' {end} $?\n"
        )
        self.bash.stdin.flush()
        output = []
        # A command that hangs prints nothing, so the read would never return.
        watchdog = threading.Timer(self.seconds, os.killpg, (self.bash.pid, signal.SIGKILL))
        watchdog.start()
        try:
            while not (line := self.bash.stdout.readline()).startswith(end):
                if not line:
                    raise Failed(f"the shell ended, or {self.seconds} s were not enough: {''.join(output)}")
                output.append(line)
        finally:
            watchdog.cancel()
        self.status = int(line.removeprefix(end))
        printed = "".join(output).removesuffix("\n")
        # For the next hidden command of the page.
        (self.folder / ".output").write_text(printed)
        return printed, self.status

    def serve(self, command):
        """Starts a server as in a shell of its own; an earlier one ends first."""
        self.stop_server()
        log = self.folder / ".server.log"
        base = self.evaluate("env -0")
        environment = dict(entry.split("=", 1) for entry in base.split("\0") if "=" in entry)
        with log.open("wb") as output:
            self.server = subprocess.Popen(
                ["bash", "-c", "exec " + SERVER.sub("belljar serve $DOCS_SERVE_OPTIONS", command)], cwd=self.folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + self.seconds
        while True:
            try:
                urllib.request.urlopen("http://127.0.0.1:3000/v1/ready", timeout=5).close()
                break
            except (OSError, urllib.error.HTTPError) as error:
                if self.server.poll() is not None:
                    raise Failed(f"the server ended with {self.server.returncode}: {log.read_text()}")
                if time.monotonic() > deadline:
                    raise Failed(f"the server is not ready after {self.seconds} s: {error}: {log.read_text()}")
                time.sleep(0.1)
        printed = log.read_text()
        if found := KEY.search(printed):
            self.key = found[0]
        return printed

    def evaluate(self, command):
        path = self.folder / ".evaluated"
        before = self.status
        self.run(f"{command} > {path}")
        self.status = before
        return path.read_text()

    def stop_server(self):
        if self.server and self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(60)
        self.server = None

    def close(self):
        self.stop_server()
        self.bash.stdin.close()
        try:
            self.bash.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.bash.pid, signal.SIGKILL)
            self.bash.wait()
