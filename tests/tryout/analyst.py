"""User B: questions about files, without a model; then what is kept, shown and paid."""

import gzip
import json
import os
import re

import files
from place import ROOT, plain
from script import Script, Wrong, expect, is_so
from stand_in import Model

script = Script("b", "a data analyst")
step = script.step


def number(cell):
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return None


def rows(ran):
    """The rows of the Markdown table in an answer, as dictionaries."""
    lines = [line for line in ran.lines() if line.startswith("|")]
    is_so(len(lines) > 2, "a table", ran.told())
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(head, cells)) for cells in body]


def same(got, wanted):
    return got is not None and abs(got - wanted) <= max(abs(wanted) * 1e-6, 0.0001)


def answer(place, question, data, measure, wanted):
    """Asks for one measure: of all rows (a number) or of each group (a dictionary)."""
    ran = place.sh(f"belljar ask -q {question!r} --data {data}").ends(0)
    found = rows(ran)
    if isinstance(wanted, dict):
        group = next(iter(found[0]))
        got = {row[group]: number(row.get(measure, "")) for row in found}
        right = got.keys() == {str(name) for name in wanted} and all(same(got[str(name)], wanted[name]) for name in wanted)
    else:
        got = {row.get("measure"): number(row.get("value", "")) for row in found}
        right = same(got.get(measure), wanted)
    is_so(right, f"{measure}: {wanted}", ran.told())
    return ran


def refused(place, question, data, *parts):
    """A question that is not understood: no answer, no code, and what may be meant."""
    ran = place.sh(f"belljar ask {question!r} --data {data}").ends(5)
    ran.says("The question is not understood", *parts).hides("import ", "def ")
    return ran


def described(place, *names):
    document = place.sh(f"belljar dataset describe --json {' '.join(names)}").ends(0).json()
    return {dataset["name"]: dataset for dataset in document["datasets"]}


def columns(dataset):
    return {field["name"]: field for field in dataset["root"]["fields"]}


@step("belljar dataset describe sales.csv: counts that can be right")
def describe(place):
    place.write("sales.csv", files.table(files.ORDERS))
    ran = place.sh("belljar dataset describe sales.csv").ends(0).says("400 records", "key: order_id")
    counts = [int(count) for count in re.findall(r"~?(\d+) distinct", ran.out)]
    is_so(counts and max(counts) <= 400, "at most 400 different values", ran.told())
    for name, column in columns(described(place, "sales.csv")["sales.csv"]).items():
        wanted = len({row[name] for row in files.ORDERS})
        is_so(column["distinct"] <= 400, f"at most 400 different values of {name}", column["distinct"])
        if column.get("distinct_is_exact"):
            expect(column["distinct"], wanted, f"different values of {name}")


@step("Which region sold most?  (units, or revenue?)")
def ambiguous(place):
    refused(place, "Which region sold most?", "sales.csv", "Did you mean `units` or `revenue`?")


@step("What was total revenue in March 2026?")
def in_march(place):
    march = [row for row in files.ORDERS if row["order_date"].startswith("2026-03")]
    answer(place, "What was total revenue in March 2026?", "sales.csv", "sum", files.revenue(march))


@step("Top 5 orders by revenue")
def top(place):
    ran = place.sh("belljar ask -q 'Top 5 orders by revenue' --data sales.csv").ends(0)
    wanted = sorted(files.ORDERS, key=lambda row: -row["revenue"])[:5]
    got = [(row.get("order_id"), number(row.get("revenue", ""))) for row in rows(ran)]
    expect(got, [(str(row["order_id"]), row["revenue"]) for row in wanted], "order_id and revenue")


@step("Umsatz nach Region; Wie hoch ist der Umsatz im März?")
def german(place):
    refused(place, "Umsatz nach Region", "sales.csv")
    refused(place, "Wie hoch ist der Umsatz im März?", "sales.csv")


@step("total amount by customer country  (two files, without a common key and with one)")
def joined(place):
    place.write("customers.csv", files.table(files.BUYERS))
    place.write("orders.csv", files.table(files.BOUGHT))
    question = "total amount by customer country"
    refused(place, question, "orders.csv customers.csv", "`country` is a column of `customers`", "joined by a key")
    keyed = [{"order": row["order"], "customer_id": row["customer"], "amount": row["amount"]} for row in files.BOUGHT]
    place.write("keyed.csv", files.table(keyed))
    answer(place, "total amount by country", "keyed.csv customers.csv", "sum", files.amount_by_country())


@step("revenue by month")
def months(place):
    month = files.by(lambda row: row["order_date"][:7])
    answer(place, "revenue by month", "sales.csv", "sum", month)


@step("by region, mean per product, median of won orders, correlation, counts, the last 30 days")
def plain_questions(place):
    ran = answer(place, "Which region has the highest total revenue?", "sales.csv", "sum", files.by("region"))
    best = max(files.by("region").items(), key=lambda pair: pair[1])[0]
    ran.says(f"`{best}` has the highest sum")
    answer(place, "mean revenue per product", "sales.csv", "mean", files.by("product", files.mean))
    won = [row for row in files.ORDERS if row["stage"] == "won"]
    medians = files.by("region", files.median, won)
    answer(place, "median revenue of won orders by region", "sales.csv", "median", medians)
    ran = place.sh("belljar ask -q 'correlation between units and revenue' --data sales.csv").ends(0)
    is_so(f"{files.correlation():.3f}" in ran.out, f"{files.correlation():.4f}", ran.told())
    answer(place, "How many orders are there by stage?", "sales.csv", "count", files.by("stage", len))
    last = max(row["order_date"] for row in files.ORDERS)
    recent = [row for row in files.ORDERS if days(last) - days(row["order_date"]) < 30]
    answer(place, "total revenue in the last 30 days", "sales.csv", "sum", files.revenue(recent))


def days(text):
    return files.datetime.date.fromisoformat(text).toordinal()


@step("noheader.csv: 400 records in the description and in the answer")
def headerless(place):
    place.write("noheader.csv", files.table(files.ORDERS, header=False))
    dataset = described(place, "noheader.csv")["noheader.csv"]
    expect(dataset["rows"], 400, "rows")
    expect(list(columns(dataset)), [f"column_{place}" for place in range(1, 8)], "columns")
    answer(place, "total column_7", "noheader.csv", "sum", files.revenue())


@step("latin-1 and UTF-16: Köln stays Köln")
def encodings(place):
    text = files.table([row | {"betrag": german_number(row)} for row in files.UMSATZ])
    wanted = files.by("stadt", lambda found: sum(map(german_number, found)), files.UMSATZ)
    for name, encoding in (("latin.csv", "latin-1"), ("wide.csv", "utf-16")):
        place.write(name, text.encode(encoding))
        place.sh(f"belljar dataset describe {name}").ends(0).says("Köln", "Düsseldorf").hides("\ufffd", "\\ufffd")
        answer(place, "total betrag by stadt", name, "sum", wanted)


def german_number(row):
    return files.german(row["betrag"])


@step("semicolons, decimal commas, dd.mm.yyyy: numbers and dates")
def commas(place):
    place.write("umsatz.csv", files.table(files.UMSATZ, delimiter=";"))
    dataset = columns(described(place, "umsatz.csv")["umsatz.csv"])
    total = sum(map(german_number, files.UMSATZ))
    is_so(dataset["betrag"].get("numbers"), "betrag as a column of numbers", dataset["betrag"])
    is_so(dataset["datum"].get("dates"), "datum as a column of dates", dataset["datum"])
    answer(place, "total betrag", "umsatz.csv", "sum", total)


@step("sales.csv.gz: described and answered alike")
def packed(place):
    place.write("sales.csv.gz", gzip.compress(files.table(files.ORDERS).encode()))
    expect(described(place, "sales.csv.gz")["sales.csv.gz"]["rows"], 400, "rows")
    answer(place, "total revenue by region", "sales.csv.gz", "sum", files.by("region"))


@step("Parquet and Excel: all four regions, dates as dates, the same sums")
def binary(place):
    place.write("write.py", WRITE)
    place.sh("belljar run -t python-data write.py --in sales.csv --out sales.parquet --out sales.xlsx").ends(0)
    for name in ("sales.parquet", "sales.xlsx"):
        dataset = described(place, name)[name]
        expect(dataset["rows"], 400, f"rows of {name}")
        region = columns(dataset)["region"]
        is_so(sorted(value for value, _ in region["values"]) == sorted(files.REGIONS), "all four regions", region)
        is_so(columns(dataset)["order_date"].get("dates"), "order_date as dates", columns(dataset)["order_date"])
        answer(place, "total revenue by region", name, "sum", files.by("region"))


WRITE = """
import pandas as pd
sales = pd.read_csv("sales.csv", parse_dates=["order_date"])
sales.to_parquet("sales.parquet")
sales.to_excel("sales.xlsx", index=False)
"""


@step("ids that come again, and ids that differ in their case")
def keys(place):
    place.write("customers.csv", files.table(files.CUSTOMERS))
    place.write("orders.csv", files.table([row | {"customer": row["customer"].lower()} for row in files.BOUGHT]))
    ran = place.sh("belljar dataset describe customers.csv orders.csv").ends(0)
    ran.says("customer_id comes again, 80 different values in 85 records")
    near = place.sh("belljar dataset describe --json customers.csv orders.csv").ends(0).json()["near_misses"]
    is_so([miss for miss in near if miss["because"] == "case"], "a near miss by case", near)


@step("a header without rows, an empty file, a directory, a pipe, a file that is not there")
def nothing(place):
    place.write("header.csv", "order_id,region\n")
    place.write("empty.csv", "")
    for data, said in (
        ("header.csv", "`header.csv` has a header (order_id, region) and no rows"),
        ("empty.csv", "`empty.csv` is empty"),
        (".", "`.` is a directory"),
        ("<(cat sales.csv)", "is not a regular file"),
        ("none.csv", "cannot open `none.csv`"),
    ):
        place.sh(f"belljar ask 'How many orders?' --data {data}").ends(125).says(said, "hint: ")
        place.sh(f"belljar dataset describe {data}").ends(1).says(said)


@step("belljar ask without --data; an empty question")
def without_data(place):
    before = len(place.sh("belljar runs list --json").ends(0).json())
    place.sh("belljar ask 'How many orders?'").ends(125).says("there is no data to answer from", "--data")
    place.sh("belljar ask '' --data sales.csv").ends(2).says("a question must not be empty")
    expect(len(place.sh("belljar runs list --json").ends(0).json()), before, "runs that were begun")


@step("what an ask leaves in the directory: nothing, or --out")
def left(place):
    before = sorted(os.listdir(place.work))
    ran = place.sh("belljar ask 'total revenue by region' --data sales.csv").ends(0).says("files kept with the run")
    place.sh("belljar ask 'Which region sold most?' --data sales.csv").ends(5)
    expect(sorted(os.listdir(place.work)), before, "the files of the directory")
    run = re.search(r"belljar ask --resume (\w+) --out DIR", ran.err)
    is_so(run, "the command that writes the files", ran.told())
    place.sh(f"belljar ask --resume {run[1]} --out results").ends(0)
    is_so(b"region" in place.read("results/result.md"), "the answer in result.md", place.read("results/result.md"))


@step("the answer at a terminal of 80 and of 120 columns: aligned, 1,000s, bold; NO_COLOR")
def terminal(place):
    question = "belljar ask 'total revenue by region' --data sales.csv"
    for columns_ in (80, 120):
        ran = place.terminal(question, columns_).ends(0)
        text = plain(ran.out)
        widest = max(map(len, text.splitlines()))
        is_so(widest <= columns_, f"at most {columns_} columns", f"{widest}:\n{text}")
        is_so("\x1b[1m" in ran.out, "a header in bold", repr(ran.out))
        is_so("|" not in text and "import " not in text, "an aligned table, and no code", text)
        best = max(files.by("region").values())
        is_so(f"{best:,.2f}".rstrip("0").rstrip(".") in text, f"{best:,.2f} with separators", text)
    ran = place.terminal(f"{question} -q", 80, NO_COLOR="1").ends(0)
    is_so("\x1b[1m" not in ran.out, "no colour", repr(ran.out))
    # In a pipe it is Markdown, with plain numbers.
    is_so("|" in place.sh(f"{question} -q").ends(0).out, "Markdown in a pipe", "none")


@step("belljar runs list, show, cost: a header, short ids, no wider than the terminal")
def runs(place):
    listed = plain(place.terminal("belljar runs list", 80).ends(0).out).splitlines()
    is_so(re.fullmatch(r"RUN +MADE +STATE +QUESTION *", listed[0]), "a header", listed[0])
    run = listed[2].split()[0]
    is_so(len(run) < 26, "a short id", run)
    for columns_ in (80, 120):
        for command in ("runs list", f"runs show {run}", f"runs cost {run}", "runs stats", "ask -v 'total units' --data sales.csv"):
            text = plain(place.terminal(f"belljar {command}", columns_).ends(0).out)
            widest = max(map(len, text.splitlines()))
            is_so(widest <= columns_, f"`belljar {command}` within {columns_} columns", f"{widest}:\n{text}")
    cost = place.sh(f"belljar runs cost {run}").ends(0)
    is_so(len(cost.lines()) == 4 and run in cost.out, "one run, a header and a total", cost.told())


@step("--json of run, cells and runs: the same names and units")
def units(place):
    run = place.sh("belljar runs list --json").ends(0).json()[0]["id"]
    place.write("cell.py", "1 + 1\n")
    last = place.sh("belljar cells cell.py --json").ends(0).lines()[-1]
    found = {
        "run": place.sh("belljar run --json -c 'print(1)'").ends(0).json()["usage"],
        "cells": json.loads(last)["usage"],
        "runs cost": place.sh(f"belljar runs cost {run} --json").ends(0).json()[0],
        "runs show": place.sh(f"belljar runs show {run} --json").ends(0).json()["turns"][0],
    }
    for command, document in found.items():
        is_so(isinstance(document.get("cpu_ms"), int), f"cpu_ms of {command}", document)
        odd = [name for name in document if name.endswith("_micros") or name in ("cpu", "wall", "peak_bytes")]
        expect(odd, [], f"other units in {command}")


@step("a model of one's own: no price is known; a price file as the documentation describes it")
def model(place):
    place.write("key", "a-key-of-the-analyst\n")
    place.model = Model([("finish", {"answer": "Nothing went quiet.", "files": []})])
    ask = f"belljar ask 'What went quiet?' --data sales.csv --model my-model --model-url {place.model.url} --model-key key"
    place.sh(ask).ends(125).says("no price is known for the model `my-model`", "--prices", "docs/operations.md")
    expect(place.model.requests, [], "requests to the model before it had a price")
    place.write("prices.toml", prices())
    ran = place.sh(f"{ask} --prices prices.toml").ends(0)
    is_so("Nothing went quiet." in ran.out, "the model's answer", ran.told())
    run = re.search(r"^run (\w+)", ran.err, re.MULTILINE)[1]
    cost = place.sh(f"belljar runs cost {run} --json").ends(0).json()[0]
    # 1,000 tokens in and 100 out, at the example's prices.
    expect(cost["nano_dollars"], 1000 * 3000 + 100 * 15000, "nano-dollars")
    is_so("a-key-of-the-analyst" not in place.model.texts(), "no key in a prompt", "the key")


def prices():
    """The price file of the documentation's example."""
    page = (ROOT / "docs" / "operations.md").read_text()
    example = re.search(r"^## Prices$.*?^```toml$(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    is_so(example, "an example of the file in docs/operations.md", "none")
    return example[1]


@step("the prompt and load_data() agree with the description: noheader.csv, latin.csv, sales.csv.gz")
def loaded(place):
    place.write("sales.csv.gz", gzip.compress(files.table(files.ORDERS).encode()))
    packed = described(place, "sales.csv.gz")["sales.csv.gz"]["variable"]
    code = (
        "load_data()\n"
        "print(noheader.shape, list(noheader.columns)[:2])\n"
        "print(latin.shape, sorted(set(latin.stadt))[0], round(float(latin.betrag.sum()), 2))\n"
        f"print(len({packed}), round(float({packed}.revenue.sum()), 2))"
    )
    model = Model([("execute_python", {"code": code}), ("finish", {"answer": "done", "files": []})])
    data = "noheader.csv latin.csv sales.csv.gz"
    place.write("key", "a-key-of-the-analyst\n")
    place.write("prices.toml", prices())
    place.sh(
        f"belljar ask 'What is there?' --data {data} --model my-model --model-url {model.url} --model-key key "
        "--prices prices.toml"
    ).ends(0)
    texts = model.texts()
    latin = round(sum(map(german_number, files.UMSATZ)), 2)
    for wanted in ("400 records", "column_1", "Köln", "(400, 7) ['column_1', 'column_2']", f"(90, 3) Aachen {latin}"):
        is_so(wanted in texts, f"`{wanted}` in what the model is told", prompt_end(model))
    is_so(f"400 {files.revenue()}" in texts, f"400 {files.revenue()}", prompt_end(model))


def prompt_end(model):
    if not model.requests:
        raise Wrong("a request to the model", "none")
    return json.dumps(model.requests[-1]["messages"][-1], ensure_ascii=False)[:3000]
