"""Computes the right answer to every question, with SQLite, and prints all of them as JSON.

It shares no code with the rules: each table says itself how its dates are written."""

import csv
import datetime
import io
import json
import pathlib
import sqlite3
import sys
import tomllib


def number(text, decimal_comma):
    try:
        return float(text.replace(",", ".") if decimal_comma else text)
    except ValueError:
        return text


def normal(name, value, file):
    """A value as SQLite should see it: a number, an ISO date, text or nothing."""
    form = file.get("dates", {}).get(name)
    if value in ("", None):
        return None
    if form:
        moment = datetime.datetime.strptime(value, form)
        return moment.isoformat(" ") if "%H" in form else moment.date().isoformat()
    if isinstance(value, str):
        return number(value, file.get("decimal_comma", False))
    return value


def records(file):
    text = file["text"]
    if file["name"].endswith(".json"):
        return json.loads(text)
    if file["name"].endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    separator = ";" if ";" in text.splitlines()[0] else ","
    return list(csv.DictReader(io.StringIO(text), delimiter=separator))


def database(files):
    connection = sqlite3.connect(":memory:")
    for file in files:
        rows = records(file)
        names = list(rows[0])
        connection.execute(f"create table {file['table']} ({', '.join(names)})")
        values = [[normal(name, row[name], file) for name in names] for row in rows]
        marks = ", ".join("?" * len(names))
        connection.executemany(f"insert into {file['table']} values ({marks})", values)
    return connection


def answers(connection, question):
    """Every table that would be a right answer; none if there is none."""
    queries = [question[key] for key in ("sql", "also") if key in question]
    found = [connection.execute(query).fetchall() for query in queries]
    for query, rows in zip(queries, found):
        if not rows or any(cell is None for row in rows for cell in row):
            sys.exit(f"{query}: gives {rows}, which tells right from wrong badly")
    return found


def main(folder):
    datasets = []
    for path in sorted(pathlib.Path(folder).glob("*.toml")):
        dataset = tomllib.loads(path.read_text(encoding="utf-8"))
        # Further questions on the files of another list.
        if "file" not in dataset:
            other = path.parent.parent / path.name
            dataset["file"] = tomllib.loads(other.read_text(encoding="utf-8"))["file"]
        connection = database(dataset["file"])
        questions = [
            {
                "ask": question["ask"],
                "answers": answers(connection, question),
                "first": question.get("first", False),
                "ordered": question.get("ordered", False),
                "rows": question.get("rows", False),
                "outside": question.get("outside", False),
            }
            for question in dataset["question"]
        ]
        files = [[file["name"], file["text"]] for file in dataset["file"]]
        datasets.append({"name": path.stem, "files": files, "questions": questions})
    json.dump(datasets, sys.stdout)


main(sys.argv[1])
