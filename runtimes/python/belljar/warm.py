"""Runs what first cells typically do, so that children find it done.

Twice, because CPython adapts bytecode to what it has seen, and libraries
import parts of themselves on first use.
"""

import linecache
import os
import sys

CELLS = (
    "print(1)",
    "x = 1\nfor i in range(20):\n    x += i\nprint(x)\nx",
    "{'a': [1, 2.5, None], 'b': 'text'}",
    "print('part', end='')",
    "def f(n):\n    return n / 0\nf(1)",
    "this is no python",
    "%pwd",
    "import json, datetime, re, math, collections, itertools, os\n"
    "json.loads(json.dumps({'a': [1, 2]})), datetime.datetime.now().isoformat(), re.findall(r'\\d+', 'a1b22')",
)

PANDAS = '''
import io, json
import pandas as pd
rows = [{"a": i, "b": i % 7, "c": i * 1.5, "d": "x%d" % (i % 13)} for i in range(200)]
df = pd.DataFrame(rows)
df["e"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(df["a"], unit="D")
df.groupby("b").agg({"c": ["mean", "sum"], "a": "max"})
df[df["c"] > 20].merge(df.groupby("d")["c"].mean().rename("m"), on="d").sort_values("m").head(10).to_json()
df.describe().to_string()
df.pivot_table(index="b", columns="d", values="c", aggfunc="sum").fillna(0)
pd.read_csv(io.StringIO(df.to_csv(index=False)))
pd.read_json(io.StringIO(df.to_json(orient="records")))
df["d"].value_counts(), df["d"].str.upper(), df.isna().sum(), df.dtypes
df.info(buf=io.StringIO())
df.head()
'''

MATPLOTLIB = '''
import matplotlib.pyplot as plt
fig, (left, right) = plt.subplots(1, 2)
left.plot([1, 2, 3], [1, 4, 9], label="a")
left.set_title("warm")
left.legend()
right.bar(["x", "y"], [1, 2])
'''


def up(shell):
    sources = list(CELLS)
    if "pandas" in sys.modules:
        sources.append(PANDAS)
    if "matplotlib.pyplot" in sys.modules:
        sources.append(MATPLOTLIB)
    shell.channel.cell = 0
    for _ in range(2):
        for source in sources:
            shell.cell(source)
    reset(shell)


def rehearse(shell):
    """Runs a cell that nobody sees, so that the first that somebody does finds
    its pages its own already."""
    channel = shell.channel
    stream, channel.descriptor = channel.descriptor, os.open("/dev/null", os.O_WRONLY)
    channel.cell = 0
    shell.cell("print(1)")
    reset(shell)
    os.close(channel.descriptor)
    channel.descriptor = stream


def reset(shell):
    """Leaves nothing of the warm-up that user code could see."""
    for name in shell.compile._filename_map:
        linecache.cache.pop(name, None)
    shell.compile._filename_map.clear()
    shell.compile.reset_compiler_flags()
    shell.reset()
    history = shell.history_manager
    del history.input_hist_parsed[1:], history.input_hist_raw[1:]
    shell.execution_count = 1
    shell.cell_count = 0
    shell.cell_source = ""
    shell.channel.cell = None
    shell.figures.forget()
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
