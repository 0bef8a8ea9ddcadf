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

# What people do with tables: files, joins, groups, dates, ranks, text, gaps.
TABLES = '''
import json, os, tempfile
import numpy as np
import pandas as pd
rows = [{"id": i, "key": i % 50, "kind": "k%d" % (i % 5), "day": "2024-%02d-%02dT10:00:00" % (i % 12 + 1, i % 28 + 1),
         "amount": i % 97, "price": i % 31 * 1.25, "flag": i % 2 == 0, "note": None if i % 9 else "n"} for i in range(1000)]
with tempfile.TemporaryDirectory() as place:
    name = os.path.join(place, "rows.json")
    with open(name, "w") as file:
        json.dump(rows, file)
    table = pd.read_json(name)
    table.to_csv(os.path.join(place, "rows.csv"), index=False)
    pd.read_csv(os.path.join(place, "rows.csv"), parse_dates=["day"])
    pd.read_json(name, lines=False).to_json(name, orient="records")
others = pd.DataFrame({"key": range(50), "name": ["n%d" % i for i in range(50)], "size": np.arange(50) % 7})
both = table.merge(others, on="key", how="left").merge(others.add_suffix("_2"), left_on="key", right_on="key_2")
both["total"] = both["amount"] * both["price"]
both["day"] = pd.to_datetime(both["day"])
both["month"] = both["day"].dt.to_period("M").astype(str)
groups = both.groupby("kind").agg(total=("total", "sum"), count=("id", "count"), mean=("amount", "mean"))
groups.sort_values("total", ascending=False).reset_index().to_string()
both.groupby(["kind", "name"])["total"].sum().unstack(fill_value=0).round(2).to_string()
both.groupby("key", as_index=False)["total"].sum().sort_values(["total", "key"], ascending=[False, True]).head(5)
both.set_index("day").resample("MS")["total"].sum().tail().to_string()
both["day"].dt.day_name().value_counts().to_string()
both.join(both.groupby("key")["amount"].sum().rename("sum"), on="key").fillna({"note": ""})
both[["amount", "price", "total"]].corr().round(3).to_string()
both["total"].quantile([0.5, 0.9]), both["total"].rank(), both["amount"].cumsum(), both["total"].rolling(7).mean()
both.drop_duplicates("key").nlargest(3, "total").to_dict("records")
both["name"].str.contains("n1"), both["note"].fillna("?").map(len), both["amount"].apply(lambda value: value + 1)
both[both["flag"] & both["kind"].isin(["k1", "k2"])].query("amount > 3").assign(x=1).loc[:, ["id", "x"]].iloc[:5]
pd.concat([both.head(), both.tail()], ignore_index=True).melt(id_vars="id", value_vars=["amount", "price"])
pd.cut(both["amount"], 4).value_counts(), pd.crosstab(both["kind"], both["flag"]), both.dtypes.to_string()
{str(month): int(value) for month, value in both.groupby("month")["amount"].sum().items()}
both.describe(include="all")
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
        sources += PANDAS, TABLES
    if "matplotlib.pyplot" in sys.modules:
        sources.append(MATPLOTLIB)
    shell.channel.cell = 0
    for _ in range(2):
        for source in sources:
            shell.cell(source)
    # What `load_data` brings in, so that no child has to compile it.
    from . import watch as _

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
