#!/usr/bin/env python3
"""How much memory `load_data` takes for each byte of a file, by format and shape.

Each file is made, then loaded by the runtime's own readers in a process of its
own. `peak` is what had to be there at the worst moment, `held` what stays; both
over the size of the file (of Parquet: of its columns before compression, which
its footer says). Also: what a guard adds to one join, and what `load_data` adds
to contexts that have no data.

BELLJAR_TEST_PYTHON is the Python to measure, with pandas, pyarrow and IPython; it
must see this folder. Memory is counted by the kernel, time by the processor.

    measure_loading.py [--megabytes 24] [--write] [--costs]      --write: into memory-factors.json
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import RUNTIMES, Zygote, node_command, python_command, python_context

FACTORS = RUNTIMES / "memory-factors.json"
WORDS = [f"word{n}" for n in range(500)]
# What a shape is, for the host that has to tell which one a dataset has.
SHAPES = {
    "flat": "records of plain values, short text",
    "nested": "records with objects and arrays inside, short text",
    "text": "records whose bytes are mostly long text: 1,000 characters or more on average",
}

LOAD = """
import sys
sys.path.insert(0, {runtime!r})
import json, pandas, pyarrow.parquet
from belljar import datasets, readers
entry = datasets.Entry(json.loads({entry!r}), "/")
def memory(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))
# What libraries take once, for themselves.
pyarrow.table({{"a": ["x"]}}).to_pandas()
before = memory("VmRSS")
data = readers.whole(entry)
print(json.dumps({{"peak": memory("VmHWM") - before, "held": memory("VmRSS") - before, "shape": readers.shape(data)}}))
"""

LOAD_NODE = """
const fs = require("fs");
const memory = (name) => 1024 * Number(fs.readFileSync("/proc/self/status", "utf8").match(new RegExp(name + ":\\\\s+(\\\\d+)"))[1]);
const load = new Function("require", fs.readFileSync({source!r}, "utf8"))(require);
console.log = () => {{}};
const before = memory("VmRSS");
load({manifest!r}, [], false);
process.stdout.write(JSON.stringify({{ peak: memory("VmHWM") - before, held: memory("VmRSS") - before }}));
"""


def flat(n, chance):
    return {
        "id": n, "account": f"ACC-{n % 5000:05d}", "amount": round(chance.random() * 1e5, 2), "stage": chance.choice(("open", "won", "lost")),
        "created_at": f"2026-0{n % 9 + 1}-{n % 28 + 1:02d}T10:{n % 60:02d}:00", "score": chance.randrange(1000), "ok": n % 3 == 0,
        "owner": chance.choice(WORDS) + "@sales.example",
    }


def nested(n, chance):
    people = [{"name": chance.choice(WORDS), "email": f"p{n}.{at}@acme.example"} for at in range(3)]
    return {**flat(n, chance), "contacts": people, "company": {"name": chance.choice(WORDS), "size": n % 900, "address": {"city": chance.choice(WORDS), "zip": n % 99999}},
            "tags": [chance.choice(WORDS) for _ in range(4)]}


def text(n, chance):
    return {"id": n, "deal_id": n % 900, "transcript": " ".join(chance.choices(WORDS, k=700))}


MAKERS = {"flat": flat, "nested": nested, "text": text}


def make(path, form, shape, size):
    """Writes a file of about `size` bytes; answers the bytes that count."""
    chance, maker, records, written = random.Random(7), MAKERS[shape], [], 0
    while written < size:
        records.append(maker(len(records), chance))
        # A row of numbers and names takes less in CSV, and in Parquet still less.
        short = {"csv": 90, "parquet": 24}.get(form) if shape == "flat" else None
        written += short or len(json.dumps(records[-1]))
    if form == "json":
        path.write_text(json.dumps(records))
    elif form == "jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    else:
        source = path.with_suffix(".source")
        source.write_text(json.dumps(records))
        code = ("import json, sys, pandas as pd, pyarrow.parquet as pq\nframe = pd.DataFrame(json.load(open(sys.argv[1])))\n"
                "if sys.argv[3] == 'csv':\n    frame.to_csv(sys.argv[2], index=False)\n    raise SystemExit\n"
                "frame.to_parquet(sys.argv[2], index=False)\nmeta = pq.ParquetFile(sys.argv[2]).metadata\n"
                "print(sum(meta.row_group(n).total_byte_size for n in range(meta.num_row_groups)))")
        done = subprocess.run([*python_command(), "-c", code, source, path, form], check=True, capture_output=True, text=True)
        source.unlink()
        if form == "parquet":
            return int(done.stdout)
    return path.stat().st_size


def entry(path, form):
    return {"name": path.name, "variable": "data", "path": str(path), "format": form, "strategy": "whole"}


def load_python(path, form):
    code = LOAD.format(runtime=str(RUNTIMES / "python"), entry=json.dumps(entry(path, form)))
    return json.loads(subprocess.run([*python_command(), "-c", code], check=True, capture_output=True, text=True).stdout)


def load_node(path, form):
    manifest = path.with_name("datasets.json")
    manifest.write_text(json.dumps({"version": 1, "datasets": [{**entry(path, form), "path": path.name}]}))
    code = LOAD_NODE.format(source=str(RUNTIMES / "javascript" / "datasets.js"), manifest=str(manifest))
    return json.loads(subprocess.run([*node_command(), "-e", code], check=True, capture_output=True, text=True).stdout)


def cases():
    yield from (("python", form, shape) for form in ("json", "jsonl") for shape in SHAPES)
    yield from (("python", form, shape) for form in ("csv", "parquet") for shape in ("flat", "text"))
    if shutil.which(node_command()[0]):
        yield from (("javascript", form, shape) for form in ("json", "jsonl") for shape in SHAPES)
        yield from (("javascript", "csv", shape) for shape in ("flat", "text"))


def measured(megabytes):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for language, form, shape in cases():
            path = Path(folder) / f"data.{form}"
            size = make(path, form, shape, megabytes << 20)
            found = (load_python if language == "python" else load_node)(path, form)
            rows.append({"language": language, "format": form, "shape": shape, **{key: round(found[key] / size, 2) for key in ("peak", "held")}})
            print(f"{language:<10} {form:<8} {shape:<7} {size / 1e6:6.1f} MB   peak × {rows[-1]['peak']:<6} held × {rows[-1]['held']}", flush=True)
            path.unlink()
    return rows


def versions():
    code = "import sys, pandas, pyarrow\nprint('Python', sys.version.split()[0], 'pandas', pandas.__version__, 'pyarrow', pyarrow.__version__)"
    return subprocess.run([*python_command(), "-c", code], check=True, capture_output=True, text=True).stdout.strip()


COST = """
import statistics, time
import pandas as pd
keys = pd.DataFrame({'id': range(%(rows)d), 'name': [f'k{n}' for n in range(%(rows)d)]})
many = pd.DataFrame({'name': [f'k{n %% %(rows)d}' for n in range(%(rows)d * 4)], 'x': range(%(rows)d * 4)})
def once():
    begin = time.process_time()
    pd.merge(keys, many, on='name', how='left')
    return time.process_time() - begin
for _ in range(5): once()
[once() for _ in range(%(times)d)]
"""


def cost_of_guards():
    """Milliseconds that a guard adds to one join, by its size: medians."""
    zygote = Zygote("import numpy, pandas")
    place = tempfile.mkdtemp(dir="/tmp")
    try:
        for rows, times in ((100, 300), (2000, 100), (100_000, 9)):
            took = {}
            for guards in (False, True):
                context = zygote.fork()
                context.run(EMPTY.format(place=place))
                context.ask("wake", "awake", env={"BELLJAR_DATA": place}, unset=[])
                if guards:
                    context.run("load_data()")
                times_taken = context.run(COST % {"rows": rows, "times": times}).result["data"]["application/json"]
                took[guards] = 1000 * statistics.median(times_taken)
                context.close()
            print(f"a join of {rows:,} with {rows * 4:,} rows: {took[False]:.2f} ms, guarded {took[True]:.2f} ms, "
                  f"so {took[True] - took[False]:+.2f} ms", flush=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        zygote.close()


EMPTY = """
import json, os
os.makedirs({place!r}, exist_ok=True)
with open({place!r} + '/datasets.json', 'w') as file:
    json.dump({{'version': 1, 'datasets': []}}, file)
"""

LOOKS = """
import sys, time
offer = get_ipython().offer
begin = time.process_time()
for _ in range(10000):
    offer.before('print(1)')
took = (time.process_time() - begin) / 10000 * 1e6
[took, [name for name in sys.modules if name in ('belljar_runtime.watch', 'belljar_runtime.datasets')]]
"""


def cost_without_data():
    """What contexts pay that have no dataset."""
    context = python_context()
    took, loaded = context.run(LOOKS).result["data"]["application/json"]
    context.close()
    assert not loaded, loaded
    print(f"without data: {took:.2f} µs a cell, and no module of it is loaded")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--megabytes", type=int, default=24)
    options.add_argument("--write", action="store_true")
    options.add_argument("--costs", action="store_true", help="only what guards and the look for data cost")
    chosen = options.parse_args()
    source = versions()
    print(source)
    rows = [] if chosen.costs else measured(chosen.megabytes)
    if chosen.write and rows:
        table = json.loads(FACTORS.read_text())
        table["source"] = f"runtimes/tests/measure_loading.py --megabytes {chosen.megabytes}: {source}"
        table["factors"] = rows
        FACTORS.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n")
    cost_without_data()
    cost_of_guards()


if __name__ == "__main__":
    main()
