"""Checks of one framework, each with a line of its own. Imported by programs that run in the framework's venv."""

import asyncio
import inspect
import os
import pathlib
import sys
import time
import traceback

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import case_log  # noqa: E402

FRAMEWORK = os.environ["FRAMEWORK"]
_checks = []


def check(function):
    """Registers a check, named after its function. It may be async."""
    _checks.append(function)
    return function


def same(got, want):
    assert got == want, f"got {got!r}, not {want!r}"


def _call(function, loop):
    result = function()
    if inspect.iscoroutine(result):
        loop.run(result)


def main():
    # One for all: clients keep their connections from check to check.
    loop, failed = asyncio.Runner(), 0
    for function in _checks:
        title, begin = function.__name__.replace("_", " "), time.monotonic()
        try:
            case_log.run("frameworks", f"{FRAMEWORK}: {title}", lambda: _call(function, loop), (Exception,))
            outcome = "ok"
        except Exception:
            failed, outcome = failed + 1, "FAILED"
            traceback.print_exc(file=sys.stdout)
        print(f"{FRAMEWORK}: {title} ... {outcome}, {time.monotonic() - begin:.0f} s", flush=True)
    sys.stdout.flush()
    # Without taking the interpreter down: threads of the SDK's transport abort now and then when
    # that happens, after the last request has been answered.
    os._exit(failed > 0)
