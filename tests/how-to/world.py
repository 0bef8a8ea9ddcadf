"""`belljar serve` with a scripted model, and the files and commands of a page."""

import importlib.util
import json
import os
import pathlib
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "sdk")]


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


sdk = module("sdk_server", HERE.parent / "sdk" / "server.py")
pages = module("docs_page", HERE.parent / "docs" / "page.py")
output = module("docs_output", HERE.parent / "docs" / "output.py")

GATEWAY = """
[operations.llm]
kind = "model"
dialects = ["anthropic-messages"]
upstream = "http://{model}"
plaintext = true
credential = {{ file = "{key}", as = "x-api-key" }}
models = ["scripted"]
prices = "{prices}"
"""
# Of tests/agents/prices.toml, in billionths of a dollar per token.
INPUT, OUTPUT = 1000, 5000
# The questions of scripts/questions.toml: the answer, and the tokens that it takes, in and out.
QUESTIONS = {
    "Which region has the highest revenue?": ("North, with 5000.", 2100, 80),
    "How many units were sold?": ("620 units.", 2500, 80),
    "What is the best month?": ("February 2026.", 2900, 80),
}
# Of each: one with a tool call that computes, one that finishes.
MODEL_ANSWERS = 2


class Failed(Exception):
    pass


def check(right, what):
    if not right:
        raise Failed(what)


def until(what, look, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := look()):
        check(time.monotonic() < deadline, f"no {what} after {seconds} s")
        time.sleep(0.2)
    return found


class Page:
    """A page's commands, and the files that it has its reader save."""

    def __init__(self, name):
        self.steps = pages.read((ROOT / name).read_text()).steps

    def save_files(self, folder):
        for step in self.steps:
            if step.hidden and step.command.startswith("cat > "):
                subprocess.run(["bash", "-c", step.command], cwd=folder, check=True)

    def commands(self, program):
        """Those that begin so."""
        return [step for step in self.steps if not step.hidden and step.command.startswith(program)]


class Cases:
    """The cases of a page: its programs and commands, with the packages of a venv."""

    page: str
    script: str

    def __init__(self, world, programs, **variables):
        self.world, self.work = world, world.work
        prefixes = ("BELLJAR", "E2B_", "OPENAI_", "TEMPORAL")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(prefixes)}
        own = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(world.folder)}
        self.environment = clean | world.variables() | own | variables
        self.content = Page(self.page)
        self.content.save_files(self.work)
        self.processes = []

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            process.wait(30)

    def launch(self, log, *command):
        with open(self.world.folder / log, "ab") as output:
            process = subprocess.Popen(
                command, cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.processes.append(process)
        return process

    def shell(self, command, succeeds=True):
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.work, env=self.environment, capture_output=True, text=True, timeout=150
        )
        check((done.returncode == 0) is succeeds, f"{command}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def shows(self, step, printed):
        """The output of a command is the one that the page shows."""
        differs = output.differs(step.output, printed.rstrip("\n"), {})
        check(not differs, f"{step.command}: {differs}")


class World:
    def __init__(self, options, folder, script):
        self.folder, self.model_key = folder, f"sk-canary-{secrets.token_hex(24)}"
        key = folder / "model-key"
        key.write_text(self.model_key)
        command = [options.scripted, "model", "--script", HERE / "scripts" / script, "--credential-file", key]
        self.model = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.model_address = json.loads(self.model.stdout.readline())["address"]
        gateway = GATEWAY.format(model=self.model_address, key=key, prices=HERE.parent / "agents" / "prices.toml")

        class Serving(sdk.Server):
            def start(self):
                (self.folder / "gateway.toml").write_text(gateway)
                super().start()

        self.server = Serving(options.belljar, folder / "serve.log")
        self.server.wait()
        self.work = folder / "work"
        self.work.mkdir()
        Page("docs/runs.md").save_files(self.work)

    def variables(self):
        return {"BELLJAR": self.server.api, "BELLJAR_API_KEY": self.server.key, **self.server.variables()}

    def ask(self, path):
        request = urllib.request.Request(f"{self.server.api}/v1{path}", headers={"X-API-Key": self.server.key})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Failed(f"GET {path}: {error.code}: {error.read()[:500]}")

    def runs(self):
        """The ids of all runs; no case makes more than a page of them."""
        page = self.ask("/runs?limit=100")
        check(not page.get("next"), "there are more runs than one page has")
        return {line["id"] for line in page["items"]}

    def run(self, id):
        return self.ask(f"/runs/{id}")

    def charged(self, id):
        """The charges of a run for its model: their number and their sum."""
        groups = self.ask(f"/usage?run={id}&by=account")["items"]
        used = [group["used"] for group in groups if group["account"] == "models"]
        return [(one["charges"], one["nano_dollars"]) for one in used]

    def have_begun(self, runs):
        """Returns the runs once each has asked its model. None may be over."""
        found = [self.run(run) for run in runs]
        check(all(run["state"] != "finished" for run in found), f"a run ended before the program did: {found}")
        return runs if all(run["used"]["turns"] for run in found) else None

    def check_run(self, id, question):
        """The run has the answer and the cost of its question, and was charged once."""
        text, tokens, written = QUESTIONS[question]
        run, cost = self.run(id), tokens * INPUT + written * OUTPUT
        check(run["question"] == question, f"an answer to another question: {run['question']}, not {question}")
        check(run["end"] == {"outcome": "answered", "result": text}, f"{question}: {run['end']}")
        check(run["used"]["nano_dollars"] == cost, f"{question}: {run['used']}, not {cost}")
        until("charges", lambda: sum(count for count, _ in self.charged(id)) >= MODEL_ANSWERS, 30)
        charged = self.charged(id)
        check(charged == [(MODEL_ANSWERS, cost)], f"{question}: charged {charged}, not {[(MODEL_ANSWERS, cost)]}")
        return text, cost / 1e9

    def stop(self):
        self.model.terminate()
        self.model.wait(10)
        return self.server.stop()
