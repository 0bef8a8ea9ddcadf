"""The generated part of docs/e2b-compatibility.md: the results of the suites, between two markers."""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "e2b-compatibility.md"
BEGIN, END = "<!-- sdk:begin -->", "<!-- sdk:end -->"
BUILD_NETWORK = "commands have the network that the operator gives builds, `--build-network`"
PLACEHOLDER = "makes a placeholder in the client; the options that use it are refused"
# Methods that work with a limit.
LIMITS = {
    "Sandbox.create": "some options are refused",
    "Sandbox.get_mcp_token": "reads a file inside; there is no MCP gateway that writes it",
    "Sandbox.get_mcp_url": "makes a URL; there is no MCP gateway behind it",
    "Template.build": BUILD_NETWORK,
    "Template.build_in_background": BUILD_NETWORK,
    "Volume.create": "volumes cannot be mounted into sandboxes",
    "Secret.create": "secrets are stored; no sandbox uses them",
    "Secret.fill": PLACEHOLDER,
    "Secret.iam_token": PLACEHOLDER,
}


def table(name):
    lines = (HERE / name).read_text().splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def outcomes(path):
    """Each method's or refusal's outcomes, from either suite's record."""
    text = pathlib.Path(path).read_text()
    records = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text).values()
    found = {"covers": {}, "refuses": {}}
    for record in records:
        for kind in found:
            for name in record.get(kind, []):
                found[kind].setdefault(name, []).append(record["outcome"])
    return found


def verdict(results, good):
    if not results:
        return "**untested**"
    return good if all(result == "passed" for result in results) else "**fails**"


def judge(method, name, found, refused):
    if name == "-":
        return "–"
    if method in refused:
        return verdict(found["refuses"].get(method), "refused")
    return verdict(found["covers"].get(name), "works")


def page(python, javascript, versions):
    """The text of the page, and the methods that neither work nor are refused as promised."""
    refused = dict(table("refused.tsv"))
    rows, bad = [], []
    for method, other in table("methods.tsv"):
        verdicts = judge(method, method, python, refused), judge(method, other, javascript, refused)
        absent = "JavaScript has no such method" if other == "-" else ""
        note = refused.get(method) or LIMITS.get(method) or absent
        rows.append((f"`{method}`", *verdicts, note))
        if any("**" in each for each in verdicts):
            bad.append(method)
    options = []
    for name in refused:
        if "(" in name:
            verdicts = [verdict(found["refuses"].get(name), "refused") for found in (python, javascript)]
            options.append((f"`{name}`", *verdicts))
            if any("**" in each for each in verdicts):
                bad.append(name)

    count = [sum(row[column] == "works" for row in rows) for column in (1, 2)]
    total = [sum(row[column] != "–" for row in rows) for column in (1, 2)]
    pins = {line.split()[0]: line.split()[1:3] for line in (HERE / "pins.txt").read_text().splitlines() if line[0:1] != "#"}
    lines = [
        f"- Python (`{'`, `'.join(pins['python'])}`): **{count[0]} of {total[0]}** methods pass their tests.",
        f"- JavaScript (`{'`, `'.join(pins['javascript'])}`): **{count[1]} of {total[1]}** methods pass their tests.",
        f"- Older versions of Python's `e2b` that create a sandbox and connect to it: {', '.join(versions)}.",
        "",
        *grid(("Method", "Python", "JavaScript", "Note"), rows),
        "",
        "Refused options that both suites test:",
        "",
        *grid(("Option", "Python", "JavaScript"), options),
    ]
    return replaced(PAGE.read_text(), "\n".join(lines)), bad


def replaced(text, table):
    """The page with this table between its markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def grid(head, rows):
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |".replace("|  |", "| |")
