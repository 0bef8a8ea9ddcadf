"""Asks for sandboxes with E2B's SDK and prints how long each took to answer."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from e2b import Sandbox

mode, count, template, stagger = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])


def interactive(_):
    begin = time.perf_counter()
    try:
        sandbox = Sandbox.create(template, timeout=60)
        said = sandbox.commands.run("python3 --version").stdout
        took = time.perf_counter() - begin
        sandbox.kill()
        error = None if said.startswith("Python 3") else f"it said {said!r}"
        return {"tti_ms": took * 1e3, "error": error}
    except Exception as problem:
        return {"tti_ms": 0, "error": f"{type(problem).__name__}: {problem}"}


begin = time.perf_counter()
if mode == "sequential":
    iterations = [interactive(n) for n in range(count)]
else:
    with ThreadPoolExecutor(count) as pool:
        waiting = []
        for n in range(count):
            if mode == "staggered":
                time.sleep(max(0, begin + n * stagger - time.perf_counter()))
            waiting.append(pool.submit(interactive, n))
        iterations = [one.result() for one in waiting]
wall = (time.perf_counter() - begin) * 1e3
print(json.dumps({"version": version("e2b"), "wall_ms": wall, "iterations": iterations}))
