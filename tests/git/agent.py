"""A coding agent works on a repository of a real git server, through `belljar serve`, without a credential.

A run clones, sees a test fail, fixes it, commits, is refused the default branch, pushes another one, waits for an
approval that is given over HTTP, and opens a merge request. While it waits, the memory of every process of its sandbox,
their environments and files are searched for the server's credential. As root, with the template `code-interpreter`.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "agents"), str(HERE.parent / "sdk")]

import case_log  # noqa: E402
import inside  # noqa: E402


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


sdk = module("sdk_server", HERE.parent / "sdk" / "server.py")
git_server = module("git_server", HERE / "server.py")

# The attack: a search for the credential of the git server, everywhere inside.
SEARCH = "GW-31"
GATEWAY = """
[operations.llm]
kind = "model"
dialects = ["anthropic-messages"]
upstream = "http://{model}"
plaintext = true
credential = {{ file = "{model_key}", as = "x-api-key" }}
models = ["scripted"]
prices = "{prices}"

[operations.code]
kind = "git"
upstream = "{git}"
plaintext = true
repositories = ["acme/*"]
approve = "push"
approval_seconds = 240
forge = "forgejo"
credential = {{ file = "{git_key}", as = "basic", user = "bot" }}
"""


class Failed(Exception):
    pass


def check(right, what):
    if not right:
        raise Failed(what)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--belljar", default=target / "suite" / "belljar", help="the executable to test")
    parser.add_argument("--scripted", default=target / "suite" / "belljar-scripted", help="the scripted model")
    return parser.parse_args()


class World:
    def __init__(self, options, folder):
        self.folder = folder
        self.key = f"gitkey-{secrets.token_hex(24)}"
        (folder / "git-key").write_text(self.key)
        (folder / "model-key").write_text(f"sk-canary-{secrets.token_hex(24)}")
        (folder / "repositories").mkdir()
        self.git = git_server.GitServer(folder / "repositories", self.key)
        script = (HERE / "script.toml").read_text().replace("REPOSITORY", f"{self.git.url}/acme/widget.git")
        (folder / "script.toml").write_text(script)
        command = [options.scripted, "model", "--script", folder / "script.toml", "--credential-file", folder / "model-key"]
        self.model = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        address = json.loads(self.model.stdout.readline())["address"]
        gateway = GATEWAY.format(
            model=address, model_key=folder / "model-key", git=self.git.url, git_key=folder / "git-key",
            prices=HERE.parent / "agents" / "prices.toml",
        )  # fmt: skip

        class Serving(sdk.Server):
            def start(self):
                (self.folder / "gateway.toml").write_text(gateway)
                super().start()

        self.server = Serving(options.belljar, folder / "serve.log")
        self.server.wait()

    def ask(self, method, path, body=None, expect=(200, 201, 204)):
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-API-Key": self.server.key, "content-type": "application/json"}
        request = urllib.request.Request(f"{self.server.api}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        check(status in expect, f"{method} {path}: {status}: {text[:500]}")
        return json.loads(text) if text else None

    def until(self, what, look, seconds=180):
        deadline = time.monotonic() + seconds
        while not (found := look()):
            check(time.monotonic() < deadline, f"no {what} after {seconds} s")
            time.sleep(0.2)
        return found

    def stop(self):
        self.model.terminate()
        self.model.wait(10)
        return self.server.stop()

    def search(self, since):
        """The credential is in the gateway, and nowhere inside. The token is inside, where it may be."""
        root = self.server.process.pid
        pids = inside.processes(root)
        git = [pid for pid in pids if inside.command(pid).endswith("git")]
        check(git, f"{SEARCH}: git does not run: {pids}")
        size = tokens = 0
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                count, searched = inside.in_memory(pid, self.key)
                check(not count, f"{SEARCH}: the credential is in the memory of {inside.command(pid)}")
                check(self.key.encode() not in inside.environment(pid), f"{SEARCH}: it is in an environment: {pid}")
                tokens += inside.in_memory(pid, "bjt_")[0]
                size += searched
        files, searched = inside.in_files(git[-1], self.key, since)
        check(not files, f"{SEARCH}: the credential is in {files}")
        check(searched > 0, f"{SEARCH}: no file was written, so nothing was searched")
        check(tokens > 0, f"{SEARCH}, control: the token was not found in memory, where it is")
        gateways = [pid for pid in inside.descendants(root) if inside.command(pid) == "belljar-gateway"]
        found = any(inside.in_memory(pid, self.key)[0] for pid in gateways)
        check(found, f"{SEARCH}, control: the credential was not found in the gateway")
        return f"searched {len(pids)} processes, {size >> 20} MiB, {searched} files"

    def work(self):
        since = time.time() - 1
        before = self.git.tip("main")
        wish = {
            "question": "Fix the failing test of acme/widget, and open a merge request.",
            "operations": ["code"], "operation": "llm", "template": "code-interpreter",
        }  # fmt: skip
        run = self.ask("POST", "/v1/runs", wish)["id"]
        waiting = self.until("approval", lambda: self.ask("GET", "/v1/approvals")["items"])
        check(len(waiting) == 1, f"not one request waits: {waiting}")
        approval = waiting[0]
        check((approval["run"], approval["action"]) == (run, "push"), f"another request waits: {approval}")
        check(approval["changes"][0].startswith("create agent/fix at "), f"{approval['changes']}")
        check(not self.git.tip("agent/fix"), "the branch was pushed before it was approved")
        told = self.search(since)
        self.ask("POST", f"/v1/approvals/{approval['id']}", {"decision": "approve"})
        again = self.ask("POST", f"/v1/approvals/{approval['id']}", {"decision": "deny"}, expect=(409,))
        check(again["code"] == "approval_over", f"it was decided twice: {again}")
        ended = self.until("end", lambda: (found := self.ask("GET", f"/v1/runs/{run}"))["state"] == "finished" and found)
        check(self.git.tip("agent/fix") and self.git.passes("agent/fix"), f"not fixed: {ended}")
        check(self.git.tip("main") == before, "the default branch was changed")
        check(len(self.git.pulls) == 1, f"not one merge request: {self.git.pulls}")
        check(self.git.pulls[0]["base"]["ref"] == "main", f"{self.git.pulls}")
        check(not any("bjt_" in headers for *_, headers in self.git.seen), "a token went out")
        used = [event for event in self.events(run) if event.get("kind") == "network_used"]
        check(sum(event.get("approved", 0) for event in used) == 1, f"the transcript has no approval: {used}")
        refused = [one["reason"] for event in used for one in event.get("refusals", [])]
        check(refused == ["branch"], f"the transcript has other refusals: {refused}")
        self.until("end of the sandbox", lambda: not self.server.sandboxes(), 30)
        return told

    def events(self, run):
        headers = {"X-API-Key": self.server.key}
        request = urllib.request.Request(f"{self.server.api}/v1/runs/{run}/events", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:")]


def main():
    options = arguments()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "belljar"
    cache = pathlib.Path(os.environ.get("BELLJAR_CACHE", cache))
    os.environ.setdefault("BELLJAR_STORE", str(cache / "templates"))
    with tempfile.TemporaryDirectory(prefix="belljar-git-") as folder:
        world = World(options, pathlib.Path(folder))
        begin = time.monotonic()
        try:
            told = case_log.run("git", "a coding agent fixes a test", world.work, (Failed,))
            print(f"a coding agent fixes a test ... ok, {time.monotonic() - begin:.0f} s: {told}", flush=True)
        except Failed as failure:
            print(f"a coding agent fixes a test ... FAILED: {failure}", flush=True)
            print((pathlib.Path(folder) / "serve.log").read_text()[-4000:], file=sys.stderr)
            sys.exit(1)
        finally:
            left = world.stop()
        check(not left, f"the server left something behind: {left}")
    print("git: ok")

