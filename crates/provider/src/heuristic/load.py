import collections
import csv
import datetime
import gzip
import io
import json
import math
import os
import re
import statistics

FOLDER = os.environ.get("BELLJAR_DATA") or "/data"
MANIFEST = "datasets.json"


def listed():
    """The datasets that the manifest names, and notes on files that it does not."""
    try:
        with open(os.path.join(FOLDER, MANIFEST), encoding="utf-8") as file:
            entries = json.load(file)["datasets"]
    except FileNotFoundError:
        entries = []
    known = {entry["path"] for entry in entries} | {MANIFEST}
    others = sorted(set(os.listdir(FOLDER)) - known) if os.path.isdir(FOLDER) else []
    return entries, [f"`{name}` was not read: it is no table, or too large to be loaded." for name in others]


def records(value):
    """The rows in a JSON document: a list, the longest list in an object, or its values."""
    if isinstance(value, dict):
        lists = [item for item in value.values() if isinstance(item, list) and item]
        if lists:
            value = max(lists, key=len)
        elif value and all(isinstance(item, dict) for item in value.values()):
            value = [{"key": key, **item} for key, item in value.items()]
        else:
            value = [value]
    elif not isinstance(value, list):
        value = [value]
    return [item if isinstance(item, dict) else {"value": item} for item in value]


def flat(record, before="", depth=0):
    """One level of columns: nested objects by dotted names, lists by how long they are."""
    row = {}
    for key, value in record.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and depth < 3:
            row.update(flat(value, name + ".", depth + 1))
        elif isinstance(value, (list, tuple)):
            row[name + ".count"] = len(value)
        elif not isinstance(value, dict):
            row[name] = value
    return row


def is_missing(value):
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def spelling(decimal, thousands):
    whole = rf"\d{{1,3}}(?:[{thousands}' \u00a0\u202f]\d{{3}})+|\d+"
    body = rf"(?:{whole})(?:{decimal}\d+)?|{decimal}\d+"
    return re.compile(rf"([+-]?)\s?[$€£]?\s?((?:{body})(?:[eE][+-]?\d+)?)\s?[%$€£]?")


# Numbers by the mark before their decimals; the other one may stand between thousands.
SPELLINGS = {".": spelling(r"\.", ","), ",": spelling(",", r"\.")}


def number(value, mark):
    if isinstance(value, (bool, int, float)):
        return float(value) if math.isfinite(value) else None
    found = SPELLINGS[mark].fullmatch(value.strip()) if isinstance(value, str) else None
    if not found:
        return None
    sign, digits = found.groups()
    digits = "".join(letter for letter in digits if letter in mark or letter.isalnum() or letter in "+-")
    read = float(sign + digits.replace(mark, "."))
    return read if math.isfinite(read) else None


def tells(value):
    """Which decimal mark a value has; "?" if it can be either, none if it does not say."""
    if not isinstance(value, str) or not ("," in value or "." in value):
        return None
    by_point, by_comma = number(value, "."), number(value, ",")
    if by_point == by_comma:
        return None
    return "," if by_point is None else "." if by_comma is None else "?"


# How dates are written, and where year, month and day stand in it.
DATES = {
    "ymd": re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ].*)?"),
    "d.m.y": re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?: .*)?"),
    "d/m/y": re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})(?: .*)?"),
}


def parts(value, order):
    """The numbers in a date as they stand there; none if it is no date."""
    found = DATES[order].fullmatch(str(value).strip())
    return tuple(map(int, found.groups())) if found else None


class Table:
    """One dataset: its rows, how its numbers are written, and what is to be said of it."""

    def __init__(self, entry):
        options = entry.get("options") or {}
        self.file, self.name = entry["name"], entry["variable"]
        self.delimiter, self.columns_named = options.get("delimiter"), options.get("columns")
        self.has_header, self.sheet = options.get("header", True), options.get("sheet")
        self.encoding, self.compression = options.get("encoding") or "utf-8-sig", options.get("compression")
        # Digits that are no numbers, because their zeros count.
        self.texts = set(options.get("text") or ())
        self.notes, self.votes, self.marks, self.orders = [], {}, {}, {}
        path = os.path.join(FOLDER, entry["path"])
        self.rows = [flat(record) for record in getattr(self, "read_" + entry["format"])(path)]
        if not self.rows:
            raise ValueError("there are no rows in it")
        if entry.get("strategy") == "sampled":
            self.notes.append(
                f"`{self.file}` is too large: this is a sample of {len(self.rows)} of its {entry.get('rows')} rows, "
                "and counts and sums are those of the sample."
            )

    def opened(self, path):
        """The text of a file, unpacked and decoded."""
        if self.compression == "zstd":
            import pyarrow

            file = pyarrow.input_stream(path, compression="zstd")
        else:
            file = gzip.open(path) if self.compression == "gzip" else open(path, "rb")
        return io.TextIOWrapper(file, self.encoding, "replace", newline="")

    def read_csv(self, path):
        csv.field_size_limit(1 << 30)
        longer = 0
        if not self.delimiter:
            with self.opened(path) as file:
                self.delimiter = max(",;\t|", key=file.readline().count)
        with self.opened(path) as file:
            rows = csv.DictReader(file, self.columns_named, delimiter=self.delimiter)
            if self.columns_named and self.has_header:
                next(rows, None)
            for row in rows:
                longer += row.pop(None, None) is not None
                yield row
        if longer:
            self.notes.append(f"Rows of `{self.file}` with more cells than columns, which were cut: {longer}.")

    def read_jsonl(self, path):
        broken = 0
        with self.opened(path) as file:
            for line in file:
                try:
                    value = json.loads(line) if line.strip() else None
                except ValueError:
                    broken += 1
                    continue
                if value is not None:
                    yield value if isinstance(value, dict) else {"value": value}
        if broken:
            self.notes.append(f"Lines of `{self.file}` that are not JSON and were passed over: {broken}.")

    def read_json(self, path):
        with self.opened(path) as file:
            return records(json.load(file))

    def read_excel(self, path):
        import openpyxl

        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheet, first = book[self.sheet["name"]], self.sheet["first_column"]
        sheet.reset_dimensions()
        rows = sheet.iter_rows(
            min_row=self.sheet["first_row"] + 1, min_col=first + 1, max_col=first + len(self.columns_named), values_only=True
        )
        for row in rows:
            if any(value not in (None, "") for value in row):
                yield dict(zip(self.columns_named, row))

    def read_parquet(self, path):
        import pandas

        return pandas.read_parquet(path).to_dict("records")

    def columns(self):
        return list(dict.fromkeys(name for row in self.rows[:5000] for name in row))

    def vote(self, column):
        if column not in self.votes:
            self.votes[column] = collections.Counter(tells(row.get(column)) for row in self.rows)
        return self.votes[column]

    def mark(self, column):
        """The decimal mark of a column: what its values say, or else those of the others."""
        if column not in self.marks:
            own = self.vote(column)
            if not own["."] and not own[","] and own["?"]:
                own = sum((self.vote(other) for other in self.columns()), collections.Counter())
                if not own["."] and not own[","]:
                    # Who separates by semicolons needs the comma for something else.
                    own[","] = self.delimiter == ";" and any("," in str(row.get(column)) for row in self.rows)
            self.marks[column] = "," if own[","] > own["."] else "."
        return self.marks[column]

    def order(self, column):
        """How the dates of a column are written; none if it is not one of dates."""
        if column not in self.orders:
            there = [row[column] for row in self.rows[:5000] if not is_missing(row.get(column))]
            fits = [order for order in DATES if there and all(parts(value, order) for value in there)]
            self.orders[column] = self.settle(fits[0], there) if fits else None
        return self.orders[column]

    @staticmethod
    def settle(order, values):
        """Days and months can be told apart if one of them is greater than 12."""
        if order != "d/m/y":
            return order
        first, second = (max(parts(value, order)[at] for value in values) for at in (0, 1))
        return "d/m/y" if first > 12 >= second else "m/d/y" if second > 12 >= first else None

    def date(self, row, column):
        order = self.order(column)
        if order is None or is_missing(row.get(column)):
            return None
        found = parts(row[column], "d/m/y" if order == "m/d/y" else order)
        if not found:
            return None
        places = {"ymd": (0, 1, 2), "d.m.y": (2, 1, 0), "d/m/y": (2, 1, 0), "m/d/y": (2, 0, 1)}[order]
        try:
            return datetime.date(*(found[place] for place in places))
        except ValueError:
            return None

    def number(self, row, column):
        return None if column in self.texts else number(row.get(column), self.mark(column))


def load(entry):
    """The dataset, or why there is none."""
    try:
        return Table(entry), None
    except MemoryError:
        raise
    except Exception as error:
        return None, f"`{entry['name']}` cannot be read: {type(error).__name__}: {error}"
