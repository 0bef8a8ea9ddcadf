"""Agent programs as runs of `belljar serve`: over HTTP, in the journal, and after the server was killed."""

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request

import inside


class Served:
    """A server with a gateway. Killed, it is started again with what it has on its disk."""

    def __init__(self, belljar, gateway, folder, environment):
        self.belljar, self.gateway, self.folder = belljar, gateway, folder
        self.environment = environment
        self.process = None
        self.key = None

    def start(self):
        log = self.folder / f"serve-{time.monotonic_ns()}.log"
        command = [self.belljar, "serve", "--listen", "127.0.0.1:0", "--data", self.folder / "server"]
        command += ["--gateway", self.gateway]
        pipes = {"stdout": subprocess.PIPE, "stderr": log.open("w")}
        self.process = subprocess.Popen(command, text=True, env=self.environment, **pipes)
        if self.key is None:
            self.key = self.process.stdout.readline().strip()
            (self.folder / "server-key").write_text(self.key)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = re.search(r"listening on (http://\S+)", log.read_text())
            if found:
                self.url = found.group(1)
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")

    def kill(self):
        self.process.kill()
        self.process.wait(60)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def events(self, run):
        """All events of a run that is over."""
        request = urllib.request.Request(
            f"{self.url}/v1/runs/{run}/events?from=1", headers={"Authorization": f"Bearer {self.key}"}
        )
        events = []
        with urllib.request.urlopen(request, timeout=60) as answer:
            for line in answer:
                if line.startswith(b"data:"):
                    events.append(json.loads(line[5:]))
                    if events[-1].get("kind") == "finished":
                        break
        return events

    def wait(self, run, until, seconds):
        """Waits for a state of a run. Tool calls of the script wait for a file, which they get."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            _, shown = self.ask("GET", f"/v1/runs/{run}")
            if until(shown):
                return shown
            inside.write(self.process.pid, "/tmp/go-on")
            time.sleep(1)
        raise RuntimeError(f"the run did not come so far: {shown}")


def over_http(server, program, task, check, expected):
    """A run of the program: its turns, calls, files, cost and figures."""
    status, made = server.ask("POST", "/v1/runs", {"question": task, "agent": program, "budget": {"turns": 9}})
    check(status == 201, f"the run was not made: {made}")
    run = made["id"]
    shown = server.wait(run, lambda it: it["state"] == "finished", 240)
    check(shown["end"]["outcome"] == "answered", f"it did not end well: {shown}")
    check("marker-42" in shown["end"]["result"], f"the answer is another: {shown['end']}")
    check(shown["used"]["nano_dollars"] == expected, f"{shown['used']} is not {expected}")
    check(shown["used"]["turns"] >= 2 and shown["agent"] == program, f"not its turns: {shown}")
    status, runs = server.ask("GET", "/v1/runs")
    check(any(line["id"] == run for line in runs["items"]), f"it is not listed: {runs}")
    status, turn = server.ask("GET", f"/v1/runs/{run}/turns/1")
    check(status == 200 and turn["calls"], f"the first turn has no call: {turn}")
    check(any("marker-42" in json.dumps(call) for call in turn["calls"]), f"the call has no output: {turn}")
    kinds = [event["kind"] for event in server.events(run)]
    for kind in ("sandbox_attached", "tool_started", "llm_responded", "network_used", "session_saved"):
        check(kind in kinds, f"there is no {kind}: {kinds}")
    check(kinds.count("tool_started") == 1, f"the program was begun more than once: {kinds}")
    files = [event["name"] for event in server.events(run) if event["kind"] == "artifact_added"]
    check("marker.txt" in files, f"its file was not kept: {files}")
    return f"{shown['used']['turns']} turns, {len(kinds)} events"


def from_a_terminal(server, belljar, program, task, check, environment):
    """`belljar agent run --server`: the same events and status as on one machine."""
    command = [belljar, "agent", "run", "--program", program, "--server", server.url, "--json"]
    command += ["--server-key", server.folder / "server-key", task]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    while process.poll() is None:
        inside.write(server.process.pid, "/tmp/go-on")
        time.sleep(1)
    events = [json.loads(line) for line in process.stdout]
    kinds = [event["type"] for event in events]
    check(process.returncode == 0 and events[-1]["ok"], f"it did not end well: {events[-1:]}")
    check({"text", "tool_call", "tool_result", "result"} <= set(kinds), f"events are missing: {kinds}")
    return f"{events[-1]['turns']} turns"


def killed(server, program, task, check):
    """The server dies while a tool runs, with its sandboxes. The next one begins the program again, once."""
    status, made = server.ask("POST", "/v1/runs", {"question": task, "agent": program})
    check(status == 201, f"the run was not made: {made}")
    run = made["id"]
    deadline = time.monotonic() + 120
    # Up to the first tool call: made, claimed, attached, intended, started, and its own intent.
    while server.ask("GET", f"/v1/runs/{run}")[1]["events"] < 6:
        check(time.monotonic() < deadline, "the program did not begin")
        time.sleep(0.5)
    server.kill()
    server.start()
    shown = server.wait(run, lambda it: it["state"] == "finished", 300)
    check(shown["end"]["outcome"] == "answered", f"it did not end well: {shown}")
    events = server.events(run)
    kinds = [event["kind"] for event in events]
    check(kinds.count("sandbox_attached") == 2, f"not a second sandbox: {kinds}")
    lost = [event for event in events if event["kind"] == "tool_finished" and event["reason"] == "lost"]
    check(len(lost) == 1, f"not one call was lost: {lost}")
    check(kinds.count("tool_started") == 2, f"the program was not begun twice: {kinds}")
    taken = [event for event in events if event["kind"] == "lease_taken"]
    check(len(taken) >= 2, f"no other worker took the run: {taken}")
    return f"{len(events)} events, {os.path.basename(server.url)}"


def refused(server, program, check):
    """What a program has no use for is refused before anything is paid for."""
    status, problem = server.ask(
        "POST", "/v1/runs", {"question": "x", "agent": program, "parameters": {"temperature": 0.5}}
    )
    check(status == 422 and "parameters" in problem["message"], f"not refused: {status} {problem}")
    status, problem = server.ask("POST", "/v1/runs", {"question": "x", "agent": program, "operation": "nothing"})
    check(status in (404, 422), f"an operation that is not there: {status} {problem}")
    return "refused"
