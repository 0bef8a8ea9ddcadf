"""E2B's Python SDK against `belljar serve`: the smoke test, and examples whose output is known.

Usage: served.py REPOSITORY BELLJAR. Runs with the interpreter that has the SDK.
"""

import os
import pathlib
import subprocess
import sys

REPOSITORY, BELLJAR = map(pathlib.Path, sys.argv[1:3])
sys.path[:0] = [str(REPOSITORY / "tests" / "sdk"), str(REPOSITORY / "tests")]

import server  # noqa: E402

# An emulated processor takes a while to import what the examples do.
PATIENCE = 240
EXAMPLES = ("hello", "conversation", "branches", "analysis")


def say(name, wrong):
    print(f"FAIL {name}: {wrong}" if wrong else f"ok   {name}", flush=True)
    return not wrong


def run(script, want, environment):
    """Runs a script and returns what is wrong with it."""
    command = [sys.executable, script]
    try:
        done = subprocess.run(command, env=environment, cwd=script.parent, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        return f"not over after {PATIENCE} s: {error.stderr}"
    if (done.returncode, done.stdout) == (0, want):
        return ""
    return f"status {done.returncode}, output {done.stdout!r} instead of {want!r}\n{done.stderr}"


def main():
    log = pathlib.Path("/tmp/serve.log")
    serving, good = server.Server(BELLJAR, log), []
    try:
        serving.wait(PATIENCE)
        environment = {**os.environ, **serving.variables()}
        good.append(say("the SDK's smoke test", run(REPOSITORY / "tests/sdk/smoke.py", "ok\n", environment)))
        examples = REPOSITORY / "examples" / "e2b"
        for name in EXAMPLES:
            want = (examples / "expected" / f"{name}.txt").read_text()
            wrong = run(examples / "python" / f"{name}.py", want, environment)
            good.append(say(f"the example {name}", wrong))
        good.append(say("no sandbox is left", " ".join(serving.sandboxes())))
    except (Exception, SystemExit) as error:
        good.append(say("the server can be used", f"{type(error).__name__}: {error}"))
    finally:
        good.append(say("the server ends and leaves nothing", "; ".join(serving.stop())))
    if not all(good):
        print(log.read_text())
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
