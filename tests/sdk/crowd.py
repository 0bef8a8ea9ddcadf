"""Processes of clients, and what they tell."""

import contextlib
import json
import os
import pathlib
import subprocess
import threading

HERE = pathlib.Path(__file__).resolve().parent
# An event loop serves its clients in turn; one for each core measures the server more than itself.
PROCESSES = 2


def interpreter():
    """The Python that has the SDK."""
    home = subprocess.run([HERE / "prepare"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return pathlib.Path(home) / "python" / "bin" / "python"


def errors(told):
    return [f"{line['step']}: {line['error']}" for line in told if "error" in line]


class Process:
    """One process of clients; read from as soon as it says something, so that it never waits for us."""

    def __init__(self, python, server, *options):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("E2B_")}
        clean |= server.variables() | {"PYTHONDONTWRITEBYTECODE": "1"}
        command = [python, HERE / "client.py", *options]
        self.child = subprocess.Popen(command, env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.told, self.heard = [], threading.Condition()
        self.over = False
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.child.stdout:
            with self.heard:
                # The last line of a process that was ended may be half a line.
                with contextlib.suppress(json.JSONDecodeError):
                    self.told.append(json.loads(line))
                self.heard.notify_all()
        with self.heard:
            self.over = True
            self.heard.notify_all()

    def hear(self, word, seconds=600):
        """Waits until it has said this word; false when it never will."""
        said = lambda: any(word in line for line in self.told)  # noqa: E731
        with self.heard:
            self.heard.wait_for(lambda: self.over or said(), seconds)
            return said()

    def go_on(self):
        # It may be over already.
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.write("\n")
            self.child.stdin.flush()

    def end(self):
        """Ends it in the middle of whatever it does; returns what it told."""
        self.child.kill()
        self.reader.join()
        self.child.wait()
        return self.told

    def finish(self):
        self.reader.join()
        if self.child.wait() != 0:
            self.told.append({"error": f"a process of clients ended with {self.child.returncode}", "step": None})
        elif not any("done" in what for what in self.told):
            self.told.append({"error": "a process of clients ended before its work did", "step": None})
        return self.told


class Crowd:
    """Clients, spread over several processes."""

    def __init__(self, python, server, count, name, *options):
        share = [count // PROCESSES + (index < count % PROCESSES) for index in range(PROCESSES)]
        self.processes = [
            Process(python, server, "--name", f"{name}p{index}", "--clients", str(share[index]), *options)
            for index in range(PROCESSES)
            if share[index]
        ]

    def meet(self):
        """Waits until every client has its sandbox."""
        return all([process.hear("met") for process in self.processes])

    def go_on(self):
        for process in self.processes:
            process.go_on()

    def end(self):
        return [line for process in self.processes for line in process.end()]

    def finish(self):
        return [line for process in self.processes for line in process.finish()]
