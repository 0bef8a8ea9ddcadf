"""Runs commands in sandboxes with a network, and reads the gateway's rows."""

import json
import os
import shutil
import subprocess


class Failure(Exception):
    pass


class Suite:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.environment = {**os.environ, "BELLJAR_DATA": str(folder / "data")}
        self.opened = []

    def template(self, name):
        """The template's name; one that is a recipe of ours is built first."""
        if name.endswith(".toml"):
            command = [self.options.belljar, "template", "build", "--quiet", name]
            done = subprocess.run([str(word) for word in command], env=self.environment, text=True, capture_output=True)
            if done.returncode != 0:
                raise Failure(f"cannot build {name}\n{done.stderr}")
            return done.stdout.strip()
        return name

    def belljar(self, name, network, command, template, settings=None, env=None):
        """Runs a command in a sandbox; gives what it printed, and the rows."""
        rows = (self.options.keep or self.folder) / f"{name}.jsonl"
        whole = [self.options.belljar, "exec", "--template", template]
        if settings or self.opened:
            whole += ["--gateway", settings or self.folder / "gateway.toml"]
        whole += ["--time", "3m", *network, "--connections", rows, "--", *command]
        environment = {**self.environment, **(env or {})}
        done = subprocess.run(
            [str(word) for word in whole], env=environment, text=True, capture_output=True, timeout=300
        )
        rows = [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else []
        check_attributed(name, rows)
        return done.returncode, done.stdout + done.stderr, rows

    def open_private(self, name, command, template):
        """Opens what a command needs, until nothing is refused as private."""
        for attempt in range(4):
            _, said, rows = self.belljar(f"{name}-{attempt}", ["--network", "packages"], command, template)
            refused = [row for row in rows if (row["kind"], row["reason"]) == ("lookup", "private")]
            new = sorted({row["address"] for row in refused} - set(self.opened))
            if not new:
                return
            self.opened += new
            settings = f"[gateway]\nopenings = {json.dumps(self.opened)}\n"
            (self.folder / "gateway.toml").write_text(settings)
        raise Failure(f"{name}: more and more private addresses\n{said}")

    def forget(self):
        """Nothing is kept from before."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)


def check_attributed(name, rows):
    """Every row must say which call it was, and none may be missing."""
    numbers = [row["sequence"] for row in rows]
    if numbers != list(range(len(rows))):
        raise Failure(f"{name}: the rows are not numbered without gaps: {numbers}")
    strangers = [row for row in rows if not row.get("call", {}).get("number", -1) >= 0]
    if strangers:
        raise Failure(f"{name}: of no call:\n{show(strangers)}")


def exchanges(rows, decision=None, reason=None):
    found = [row for row in rows if row["kind"] == "exchange"]
    found = [row for row in found if decision in (None, row["decision"])]
    return [row for row in found if reason in (None, row["reason"])]


def show(rows):
    keys = ("sequence", "kind", "decision", "reason", "host", "method", "path", "status")
    return "\n".join("  " + " ".join(str(row.get(key, "-")) for key in keys) for row in rows)


def expect(is_so, what, rows):
    if not is_so:
        raise Failure(f"{what}:\n{show(rows)}")
