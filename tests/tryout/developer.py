"""User A, at the command line: code that a model wrote, its limits, packages, cells."""

import json
import re
import tomllib

from place import plain
from script import Missing, Script, Wrong, expect, is_so

script = Script("a", "an app developer")
step = script.step

REPORT = """
import csv
rows = list(csv.DictReader(open("data.csv")))
total = sum(int(row["amount"]) for row in rows)
open("report.html", "w").write(f"<h1>{total}</h1>")
"""
BOMB = "import os\nwhile True: os.fork()\n"
ASK = "import urllib.request as u; u.urlopen('https://example.com/')"
INSTALL = """
import subprocess, sys
subprocess.run([sys.executable, "-m", "pip", "install", "humanize"], check=True)
import humanize
print(humanize.intcomma(12345))
"""
PLOT = """
import matplotlib.pyplot as plt
# %%
plt.plot([1, 2, 3], [1, 4, 9]); plt.show()
"""
NEEDS = """
import pandas as pd
data = pd.read_csv("data.csv")
# %%
data.groupby("region").amount.sum().to_json("sums.json")
print(data.amount.sum())
"""
FORKED = """region
north    40
south    20
Name: amount, dtype: int64
60000 changed
60 written before the checkpoint
60 another copy
60000 the original
"""


@step("belljar doctor")
def doctor(place):
    place.tiers = {}
    for tier in place.sh("belljar doctor --json").ends(0).json()["tiers"]:
        place.tiers[tier["name"]] = tier["state"]
        is_so(tier["detail"].strip(), f"a reason or figures for {tier['name']}", tier)
    text = plain(place.terminal("belljar doctor", 100).ends(0).out)
    is_so(re.search(r"\[ok\] +jail ", text), "a line `[ok] jail`", text)
    # The command that changes settings is one line, to be pasted.
    widest = max(len(line) for line in text.splitlines() if not line.startswith("hint: "))
    is_so(widest <= 100, "no line wider than the terminal's 100 columns", f"{widest}:\n{text}")


@step("the README's lines: run -c, run a file, exec")
def first_lines(place):
    place.sh("belljar run -c 'print(sum(range(10)))'").ends(0).prints("45\n")
    place.sh("belljar run examples/hello.py").ends(0).prints("Hello from Python 3!\n")
    place.sh("belljar exec -- sh -c 'echo any command | tr a-z A-Z'").ends(0).prints("ANY COMMAND\n")


@step("belljar run report.py --in data.csv --out report.html --memory 256M --time 10s")
def report(place):
    place.write("data.csv", "region,amount\nnorth,10\nsouth,32\n")
    place.write("report.py", REPORT)
    place.sh("belljar run report.py --in data.csv --out report.html --memory 256M --time 10s").ends(0)
    expect(place.read("report.html"), b"<h1>42</h1>", "report.html")


@step("belljar run task.py --json")
def as_json(place):
    place.write("task.py", "open('made.txt', 'w').write('12345')\nprint('done')\n")
    document = place.sh("belljar run task.py --json").ends(0).json()
    expect(document["end"]["reason"], "done", "end.reason")
    expect(document["call"]["stdout"], "done\n", "call.stdout")
    [made] = [file for file in document["files_changed"] if file["path"].endswith("made.txt")]
    expect(made["bytes"], 5, "bytes of the changed file")


@step("1/0, and a syntax error")
def errors(place):
    place.sh("belljar run -c '1/0'").ends(1).says("ZeroDivisionError", "line 1")
    place.sh("belljar run -c 'def f('").ends(1).says("SyntaxError")


@step("an endless loop: --time 2s, --cpu-time 1s")
def loops(place):
    loop = "-c 'while True: pass'"
    place.sh(f"belljar run --time 2s {loop}").ends(124).says("timeout_wall", "hint: give it more with --time 8s")
    place.sh(f"belljar run --cpu-time 1s {loop}").ends(123).says("timeout_cpu", "hint: give it more with --cpu-time 4s")


@step("too much output, memory, processes and disk: each has its name, status and a hint")
def limits(place):
    place.write("bomb.py", BOMB)
    for command, status, reason, hint in (
        ("run --output-limit 1M -c 'while True: print(\"x\" * 1000)'", 119, "(output)", "--output-limit"),
        ("run --memory 64M -c 'x = bytearray(500_000_000)'", 122, "(oom)", "--memory 256M"),
        ("run bomb.py", 121, "(pids)", "--pids"),
        ("exec -- dd if=/dev/zero of=big bs=1M count=700", 120, "(disk)", "--disk"),
    ):
        place.sh(f"belljar {command} >/dev/null").ends(status).says("stopped: ", reason, "hint: ", hint)


@step("urlopen without a network")
def no_network(place):
    ran = place.sh(f'belljar run -c "{ASK}"').ends(1)
    ran.says("hint: the sandbox has no network", "--allow HOST", "--network open")
    document = place.sh(f'belljar run --json -c "{ASK}"').ends(1).json()
    expect(document["end"]["hint"]["code"], "no_network", "end.hint.code")


@step("pip install without a network")
def no_index(place):
    for command in ("exec -t python-data -- pip install idna", "run -t python-data --setup 'pip install idna' -c 1"):
        place.sh(f"belljar {command}").says("hint: the sandbox has no network", "--network packages")


@step("--network packages: pip install idna; if the index is private, what the hint says")
def packages(place):
    place.gateway = ""
    install = "-t python-data -c 'import subprocess as s; s.run([\"pip\", \"install\", \"idna\"], check=True)'"
    openings = []
    for _ in range(4):
        ran = place.sh(f"belljar run --network packages {place.gateway} {install}")
        if ran.status == 0:
            return
        ran.says("(private)", "hint: its address is private; to allow it, ")
        text = ran.err.partition("to allow it, ")[2].partition(":\n\n")[2]
        try:
            new = tomllib.loads(text)["gateway"]["openings"]
        except (tomllib.TOMLDecodeError, KeyError):
            raise Wrong("a whole file for --gateway in the hint", ran.told()) from None
        # With a file, the hint has what to add to it.
        openings += new
        place.write("gateway.toml", f"[gateway]\nopenings = {json.dumps(openings)}\n" if place.gateway else text)
        place.gateway = f"--gateway {place.work / 'gateway.toml'}"
    raise Wrong("an installation, once every address was opened", ran.told())


@step("a script that installs a package and imports it at once; --setup 'pip install …'")
def install(place):
    network = f"-t python-data --network packages {place.gateway}"
    place.write("install.py", INSTALL)
    ran = place.sh(f"belljar run {network} install.py").ends(0)
    expect(ran.lines()[-1], "12,345", "the last line")
    code = "import humanize; print(humanize.intcomma(54321))"
    ran = place.sh(f"belljar run -q {network} --setup 'pip install humanize' -c '{code}'").ends(0)
    expect(ran.lines()[-1], "54,321", "the last line")


@step("--record monday, --replay monday, --replay nosuch")
def cassettes(place):
    network = f"-t python-data --network packages {place.gateway}"
    code = "-c 'import subprocess as s; s.run([\"pip\", \"install\", \"idna\"], check=True)'"
    place.sh(f"belljar run {network} --record monday {code}").ends(0)
    place.sh(f"belljar run -t python-data --replay monday {code}").ends(0)
    place.sh("belljar run --replay nosuch -c 'print(1)'").ends(125).prints("").says("no cassette `nosuch`")


@step("belljar cells fork.py")
def fork(place):
    place.sh("belljar cells examples/cells/fork.py").ends(0).prints(FORKED)


@step("belljar cells plot.py: where is the picture?")
def plot(place):
    place.write("plot.py", PLOT)
    place.sh("belljar cells plot.py").ends(0).says("--save-charts DIR saves")
    place.sh("belljar cells plot.py --save-charts charts").ends(0).says("saved charts/cell-2-1.png")
    is_so(place.read("charts/cell-2-1.png").startswith(b"\x89PNG\r\n"), "a PNG", "something else")


@step("belljar cells needs.py --in data.csv --out sums.json --memory 1G --time 1m")
def needs(place):
    place.write("needs.py", NEEDS)
    place.sh("belljar cells needs.py --in data.csv --out sums.json --memory 1G --time 1m").ends(0).prints("42\n")
    expect(json.loads(place.read("sums.json")), {"north": 10, "south": 32}, "sums.json")


@step("belljar cells nb.ipynb --save-notebook done.ipynb")
def notebook(place):
    sources = ["x = None\nprint('first')", "{'a': 1}", "1/0", "print('never')"]
    cells = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text} for text in sources
    ]
    place.write("nb.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    ran = place.sh("belljar cells nb.ipynb --save-notebook done.ipynb").ends(1)
    ran.says("first", "ZeroDivisionError", "cell 3 failed; 1 cell was not run")
    done = json.loads(place.read("done.ipynb"))["cells"]
    kinds = [[output["output_type"] for output in cell["outputs"]] for cell in done]
    expect(kinds, [["stream"], ["execute_result"], ["error"], []], "outputs of the cells")


@step("belljar shell -t python-data -- python3; Ctrl-C")
def shell(place):
    talk = [(b">>> ", b"print(6 * 7)\r"), (b"42", b"exit()\r")]
    place.terminal("belljar shell -t python-data -- python3", talk=talk).ends(0)
    loop = "belljar run -c 'print(\"on\", flush=True)\nwhile True: pass'"
    place.terminal(loop, talk=[(b"on", b"\x03")]).ends(130)


@step("each tier of doctor: what is [ok] runs, what is [no] is refused with the reason")
def tiers(place):
    for tier, state in place.tiers.items():
        if tier == "wasm":
            continue
        # A virtual machine cannot use the host's directories.
        template = "-t python-data" if tier == "microvm" else ""
        ran = place.sh(f"belljar run --tier {tier} {template} -c 'print(6 * 7)'")
        if state == "no":
            ran.ends(125).prints("").says("error: ", tier)
        else:
            ran.ends(0).prints("42\n")
    place.sh("belljar run --tier docker -c 1").ends(2).says("gvisor", "microvm", "jail", "belljar doctor")


@step("help run, rnu, ps, list, logs, jupyter, version, completions, a misspelt template")
def words(place):
    expect(place.sh("belljar help run").ends(0).out, place.sh("belljar run --help").ends(0).out, "help run")
    for typed, wanted in (
        ("rnu", "'run'"),
        ("ps", "`belljar runs list`"),
        ("list", "`belljar runs list`"),
        ("logs", "`belljar runs show RUN`"),
        ("jupyter", "`belljar cells FILE.ipynb`"),
        ("version", "`belljar --version`"),
    ):
        place.sh(f"belljar {typed}").ends(2).says(wanted)
    place.sh("belljar run -t python-dta -c 1").ends(125).says("did you mean `python-data`?")
    place.sh("belljar completions bash > words.sh && bash -n words.sh && grep -q save-charts words.sh").ends(0)


@step("the same code on gVisor as in the jail")
def on_gvisor(place):
    if place.tiers.get("oci/runsc") not in ("ok", "warn"):
        raise Missing("doctor says that gVisor does not run here")
    place.sh("belljar run --tier gvisor report.py --in data.csv --out report.html:g.html").ends(0)
    expect(place.read("g.html"), b"<h1>42</h1>", "the report")
    place.sh("belljar run --tier gvisor --memory 64M -c 'x = bytearray(500_000_000)'").ends(122).says("(oom)")
