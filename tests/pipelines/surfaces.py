"""The three places that a pipeline run can be on: this machine alone, a server, and a platform."""

import json
import os
import secrets
import subprocess
import time
import urllib.error
import urllib.request

from cluster import Cluster
from server import Server
from tasks import MODEL, check, of_kind

PATIENCE = 120
TEMPLATE = "python-data"
GATEWAY = """
[operations.llm]
kind = "model"
dialects = ["anthropic-messages"]
upstream = "http://{address}"
plaintext = true
credential = {{ file = "{key}", as = "x-api-key" }}
models = ["{model}"]
"""


def until(what, act, patience=PATIENCE):
    """Waits until `act` returns something."""
    deadline = time.monotonic() + patience
    while not (found := act()):
        check(time.monotonic() < deadline, f"no {what} after {patience} s")
        time.sleep(0.1)
    return found


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class Surface:
    """The command line of a surface."""

    environment = None

    def command(self, *arguments):
        command = [self.belljar, *map(str, arguments)]
        done = subprocess.run(command, env=self.environment, text=True, capture_output=True, timeout=PATIENCE)
        check(done.returncode == 0, f"{command[1:3]} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout


class Local(Surface):
    """`belljar ask`, without a server."""

    title = "belljar ask"

    def __init__(self, options, folder, model):
        self.belljar, self.folder, self.model = options.belljar, folder, model
        self.asking = None
        self.environment = {**os.environ, "BELLJAR_DATA": str(folder / "local")}

    def begin(self, task):
        """Starts a run, which goes on meanwhile."""
        self.stop()
        place = self.folder / f"{task.name}-{secrets.token_hex(4)}"
        place.mkdir()
        for name, content in task.data.items():
            (place / name).write_text(content)
        command = [self.belljar, "ask", "--agent", "pipeline", "--json", "--template", TEMPLATE, task.question]
        command += [word for name in task.data for word in ("--data", place / name)]
        command += ["--memory", str(task.memory)] if task.memory else []
        address, key = self.model
        command += ["--model", MODEL, "--model-url", f"http://{address}", "--model-key", key] if address else []
        output, errors = (place / "events").open("w"), (place / "errors").open("w")
        asking = subprocess.Popen(command, env=self.environment, cwd=place, stdout=output, stderr=errors)
        self.asking, self.place = asking, place
        return until("run", lambda: (events := self.so_far()) and events[0]["run"])

    def so_far(self):
        check(self.asking.poll() in (None, 0), f"belljar ask failed: {(self.place / 'errors').read_text()[-2000:]}")
        text = (self.place / "events").read_text()
        # The last line may be half written.
        return lines(text[: text.rfind("\n") + 1])

    def question(self, _run, number):
        """The question that the run waits with."""

        def asked():
            events = self.so_far()
            return [one["hold"]["text"] for one in of_kind(events, "paused")[number - 1 :]]

        return until("question", asked)[0]

    def answers(self, run):
        """The ways to answer: there is no server, so each is the command."""
        return [lambda text: self.command("runs", "answer", run, text)]

    def finish(self, run):
        """All events of a run that is over: as they came, and as the journal has them."""
        try:
            self.asking.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.asking.kill()
            self.asking.wait()
            check(False, f"belljar ask is not over after {PATIENCE} s: {(self.place / 'errors').read_text()[-2000:]}")
        followed = self.so_far()
        kept = lines(self.command("runs", "export", run))
        return followed, kept

    def stop(self):
        """Ends a run that failed while it waited."""
        if self.asking and self.asking.poll() is None:
            self.asking.kill()
            self.asking.wait()
        return []


class Remote(Surface):
    """What a server and a platform have in common: `/v1`, and the command line as its client."""

    def __init__(self, options, folder, served):
        self.belljar, self.served, self.folder = options.belljar, served, folder
        served.wait()
        self.key = folder / "server-key"
        self.key.write_text(served.key)
        self.key.chmod(0o600)

    def ask(self, method, path, body=None, at=None):
        request = urllib.request.Request(
            f"{at or self.served.api}{path}",
            method=method,
            data=body if body is None else json.dumps(body).encode(),
            headers={"X-API-Key": self.served.key, "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            check(False, f"{method} {path}: {error.code} {error.read().decode()[:1000]}")

    def begin(self, task):
        wish = {"question": task.question, "agent": "pipeline", "template": TEMPLATE}
        wish["data"] = [{"name": name, "content": content} for name, content in task.data.items()]
        if task.memory:
            wish["limits"] = {"memory_bytes": task.memory}
        return json.loads(self.ask("POST", "/v1/runs", wish))["id"]

    def look(self, run):
        return json.loads(self.ask("GET", f"/v1/runs/{run}"))

    def question(self, run, number):
        def asked():
            shown = self.look(run)
            check(shown["state"] != "finished", f"the run is over: {shown}")
            command = ["runs", "export", "--server", self.served.api, "--server-key", self.key, run]
            questions = of_kind(lines(self.command(*command)), "paused")
            return shown["state"] == "paused" and len(questions) == number and shown.get("question_asked")

        return until("question", asked)

    def answers(self, run):
        def by_http(text):
            self.ask("POST", f"/v1/runs/{run}/answer", {"text": text}, at=self.others())

        def by_command(text):
            self.command("runs", "answer", "--server", self.served.api, "--server-key", self.key, run, text)

        return [by_http, by_command]

    def others(self):
        """Another address of the same API."""
        return self.served.api

    def events(self, run, at=None):
        """Follows the run to its end."""
        text = self.ask("GET", f"/v1/runs/{run}/events", at=at)
        return [json.loads(line.removeprefix("data:")) for line in text.splitlines() if line.startswith("data:")]

    def finish(self, run):
        """All events of a run that is over, read in two places."""
        shown = until(f"end of run {run}", lambda: (one := self.look(run))["state"] == "finished" and one)
        check(shown["agent"] == "pipeline", f"the run is shown as {shown}")
        return self.events(run), self.events(run, at=self.others())

    def stop(self):
        return self.served.stop()


class OneServer(Server):
    def __init__(self, options, folder, model):
        self.model = model
        super().__init__(options.belljar, folder / "serve.log")

    def start(self):
        address, key = self.model
        if address:
            with (self.folder / "gateway.toml").open("a") as gateway:
                gateway.write(GATEWAY.format(address=address, key=key, model=MODEL))
        super().start()


class Serve(Remote):
    title = "belljar serve"

    def __init__(self, options, folder, model):
        super().__init__(options, folder, OneServer(options, folder, model))


class Controls(Cluster):
    """Two controls that both work on runs, and three nodes."""

    def __init__(self, options, folder, model):
        self.model = model
        super().__init__(options.belljar, folder / "platform.log")

    def child(self, *command):
        environment = dict(os.environ)
        if command[1:2] == ("control",):
            command += ("--objects", self.folder / "objects")
            address, key = self.model
            if address:
                models = self.folder / "runs.toml"
                models.write_text(GATEWAY.format(address=address, key=key, model=MODEL))
                command += ("--gateway", models)
            # Each keeps the data of its own gateway.
            environment["BELLJAR_DATA"] = str(self.folder / f"control-{len(self.children)}")
        self.children.append(
            subprocess.Popen(
                command, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True, env=environment
            )
        )


class Platform(Remote):
    """A run is made by one control, answered and read through the other."""

    title = "a platform"

    def __init__(self, options, folder, model):
        super().__init__(options, folder, Controls(options, folder, model))

    def others(self):
        return self.served.data


SURFACES = {"local": Local, "serve": Serve, "platform": Platform}
