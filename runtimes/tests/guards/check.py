"""Runs every script here through the real context program, with guards and without.

A script in `join` or `temporal` has a mistake in it, and says which report it
must cause; one in `correct` must cause none. Either way what the script prints
must be the same without guards. A guard that is switched off alone reports nothing,
and the other one still does. Cells are divided by lines `# %%`.

    # finds: empty-join         what must be reported, and nothing else
    # data: live                which datasets; `told` if it does not say
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from wire import Zygote

MEDIA_TYPE = "application/vnd.belljar.guard+json"
FOLDER = "/tmp/belljar-guards"
FOLDERS = ("join", "temporal", "correct")
# The manifests without the guard of a folder, and without the other one.
SWITCHES = {"join": ("-without-joins", "-without-dates"), "temporal": ("-without-dates", "-without-joins")}


class Script:
    def __init__(self, path):
        self.path, self.source = path, path.read_text()
        self.finds, self.data = self.header("finds"), self.header("data") or "told"

    def header(self, name):
        lines = (line for line in self.source.splitlines() if line.startswith(f"# {name}:"))
        return next((line.partition(":")[2].strip() for line in lines), None)

    def run(self, zygote, suffix=""):
        """Kinds of reports, and everything that was shown besides."""
        context = zygote.fork()
        context.ask("wake", "awake", cwd=FOLDER, env={"BELLJAR_DATA": f"{FOLDER}/{self.data}{suffix}"}, unset=[])
        kinds, shown = [], []
        try:
            for cell in self.source.split("# %%\n"):
                outcome = context.run(cell)
                for event in outcome.events:
                    if event["ev"] == "display" and MEDIA_TYPE in event["data"]:
                        kinds.append(event["data"][MEDIA_TYPE]["kind"])
                    elif event["ev"] == "error":
                        raise AssertionError("\n".join(event["traceback"]))
                shown += [outcome.text(), outcome.plain]
                warned = outcome.text("stderr").count("warning [")
                reported = sum(MEDIA_TYPE in event["data"] for event in outcome.all("display"))
                if warned != reported:
                    raise AssertionError(f"{reported} reports, but {warned} warnings that the model sees")
        finally:
            context.close()
        return kinds, shown


def verdict(script, zygote):
    """What is wrong with this script's run, or `None`."""
    try:
        kinds, shown = script.run(zygote)
        silent, control = script.run(zygote, "-unguarded")
        own, other = SWITCHES.get(script.path.parent.name, ("", ""))
        switched_off = script.run(zygote, own)[0] if own else []
        left_on = script.run(zygote, other)[0] if other else kinds
    except AssertionError as error:
        return f"failed: {error}"
    wanted = {script.finds} if script.finds else set()
    if set(kinds) != wanted:
        return f"reported {sorted(set(kinds)) or 'nothing'}, not {sorted(wanted) or 'nothing'}"
    if silent:
        return f"reported {silent} although guards are off"
    if switched_off or set(left_on) != wanted:
        return f"reported {switched_off} without the guard, and {left_on} with it alone"
    if shown != control:
        return f"shows something else with guards:\n{shown}\n{control}"
    return None


def main():
    zygote = Zygote("import numpy, pandas")
    assert zygote.ready["ev"] == "ready", zygote.ready
    maker = zygote.fork()
    made = maker.run(f"{(HERE / 'data.py').read_text()}\nwrite_all({FOLDER!r})")
    assert made.done["ok"], made.error
    maker.close()
    failed = 0
    for folder in FOLDERS:
        scripts = [Script(path) for path in sorted((HERE / folder).glob("*.py"))]
        chosen = [script for script in scripts if not sys.argv[1:] or script.path.stem in sys.argv[1:]]
        wrong = {script.path.name: problem for script in chosen if (problem := verdict(script, zygote))}
        for name, problem in wrong.items():
            print(f"{folder}/{name}: {problem}", file=sys.stderr)
        what = "without a false alarm" if folder == "correct" else "mistakes found"
        print(f"{folder:<9} {len(chosen) - len(wrong):>3} of {len(chosen)} {what}")
        failed += len(wrong)
    last = zygote.fork()
    last.run(f"import os, shutil\nos.chdir('/')\nshutil.rmtree({FOLDER!r})")
    last.close()
    zygote.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
