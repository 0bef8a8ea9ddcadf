"""Reads the commands of a Markdown page, with the output that the page promises.

| Fence | Means |
|---|---|
| `console` | `$ ` starts a command, `> ` continues it; the other lines are its output |
| `sh` | commands that must succeed |
| `text` after `sh`, in the same section | the output of the last of these commands |

A line `…` in an output stands for any lines. Comments before a fence say what a
reader does without a command, or does not need to know:

| Comment | Means |
|---|---|
| `<!-- test: file NAME -->` | the reader saves the next block as this file |
| `<!-- test: setup: COMMAND -->` | the test runs this first |
| `<!-- test: status N -->` | the last command of the next block ends with this exit status |
| `<!-- test: skip: REASON -->` | the next block is not run here |
"""

import dataclasses
import re
import subprocess

FENCE = re.compile(r"^```(\w*)$")
COMMENT = re.compile(r"^<!-- test: (.*?) -->$")
DIRECTIVE = re.compile(r"(file|setup|status|skip):? (.+)")


@dataclasses.dataclass
class Step:
    line: int
    command: str
    # Expected output; None if the page shows none.
    output: str | None = None
    # Exit status that the page promises; None for a command whose output is shown instead.
    status: int | None = 0
    hidden: bool = False


@dataclasses.dataclass
class Page:
    steps: list
    # Line and reason of each block that is not run.
    skipped: list


class Malformed(Exception):
    pass


def read(text):
    steps, skipped, pending = [], [], []
    # The last command whose output may follow as a block of its own.
    open_step = None
    lines = enumerate(text.splitlines(), 1)
    for number, line in lines:
        if found := COMMENT.match(line):
            directive = DIRECTIVE.fullmatch(found[1])
            if not directive:
                raise Malformed(f"line {number}: unknown comment: {line}")
            pending.append(directive.groups())
            continue
        if line.startswith("#"):
            open_step = None
        found = FENCE.match(line)
        if not found:
            continue
        kind, body = found[1], []
        for _, inner in lines:
            if inner == "```":
                break
            body.append(inner)
        else:
            raise Malformed(f"line {number}: the block does not end")
        options, pending = pending, []
        reasons = [value for name, value in options if name == "skip"]
        if reasons:
            skipped.append((number, reasons[0]))
            open_step = None
            continue
        steps += [Step(number, value, hidden=True) for name, value in options if name == "setup"]
        for name in (value for name, value in options if name == "file"):
            content = "\n".join(body)
            steps.append(Step(number, f"cat > {name} <<'END OF FILE'\n{content}\nEND OF FILE", hidden=True))
        if kind == "sh":
            found = [Step(number, command) for command in commands(body, number)]
            for name, value in options:
                if name == "status":
                    found[-1].status = int(value)
            steps += found
            open_step = found[-1]
        elif kind == "console":
            steps += transcript(body, number)
            open_step = None
        elif kind == "text" and open_step:
            open_step.output = "\n".join(body)
            open_step = None
        else:
            open_step = None
    return Page(steps, skipped)


def commands(lines, number):
    """Splits lines into commands: each ends where the shell would not ask for more."""
    whole = []
    for line in lines:
        if not whole and not line.strip():
            continue
        whole.append(line)
        text = "\n".join(whole)
        if not line.endswith("\\") and subprocess.run(["bash", "-n", "-c", text], capture_output=True).returncode == 0:
            yield text
            whole = []
    if whole:
        raise Malformed(f"line {number}: the last command of the block is not complete")


def transcript(lines, number):
    steps = []
    for offset, line in enumerate(lines, 1):
        if line.startswith("$ "):
            steps.append(Step(number + offset, line[2:], output="", status=None))
        elif not steps:
            raise Malformed(f"line {number + offset}: output before the first command")
        elif line.startswith("> ") and not steps[-1].output:
            steps[-1].command += "\n" + line[2:]
        else:
            steps[-1].output += line + "\n"
    for step in steps:
        step.output = step.output.removesuffix("\n")
    return steps
