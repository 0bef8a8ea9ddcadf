"""Reads one dataset, whole or in parts, by its format.

A list of records becomes a DataFrame, any other JSON stays what it is.
Values are kept as the file has them: nothing is guessed from the names of
columns, text that looks like a number stays text where JSON says so, and
dates are dates only in the columns that the manifest names.
"""

import csv
import json
import os

# Rows that a reader hands out at a time unless asked otherwise.
ROWS = 50_000


class Unreadable(Exception):
    """Why a dataset cannot be had this way, and what to do instead."""


def whole(entry):
    """The dataset as one object."""
    return READERS[entry.format](entry)


def pandas():
    """The module, or `None` where the template lacks it."""
    try:
        import pandas
    except ImportError:
        return None
    return pandas


def read_json(entry):
    with open(entry.path, encoding=entry.encoding) as file:
        data = json.load(file)
    for key in entry.records:
        data = data[key]
    return framed(entry, data)


def read_lines(entry):
    return framed(entry, list(lines(entry)))


def lines(entry):
    with open(entry.path, encoding=entry.encoding) as file:
        for line in file:
            if not line.isspace():
                yield json.loads(line)


def framed(entry, data):
    pd = pandas()
    if pd is None or not is_records(data):
        return data
    return dated(pd, entry, pd.DataFrame(data))


def is_records(data):
    return isinstance(data, list) and bool(data) and all(type(record) is dict for record in data)


def dated(pd, entry, frame):
    for name, form in entry.dates.items():
        if name in frame.columns:
            try:
                frame[name] = pd.to_datetime(frame[name], **date_options(form))
            except (ValueError, TypeError):
                # What is no date after all stays as it is.
                continue
    return frame


def date_options(form):
    if form in ("s", "ms"):
        return {"unit": form}
    return {"format": "ISO8601" if form == "iso" else form}


def read_csv(entry):
    pd = pandas()
    if pd is None:
        return list(rows(entry))
    return dated(pd, entry, pd.read_csv(entry.path, **csv_options(entry)))


def csv_options(entry):
    return {
        "sep": entry.delimiter, "encoding": entry.encoding,
        "dtype": {name: str for name in entry.text}, "low_memory": False,
    }


def rows(entry):
    """Records of a CSV file as dictionaries of text."""
    with open(entry.path, encoding=entry.encoding, newline="") as file:
        yield from csv.DictReader(file, delimiter=entry.delimiter)


def read_parquet(entry):
    pd = pandas()
    if pd is not None:
        return pd.read_parquet(entry.path)
    try:
        import pyarrow.parquet
    except ImportError:
        raise Unreadable("this template has neither pandas nor pyarrow to read Parquet with") from None
    return pyarrow.parquet.read_table(entry.path)


READERS = {"json": read_json, "jsonl": read_lines, "csv": read_csv, "parquet": read_parquet}


class Reader:
    """A dataset that does not fit into memory: read it by parts.

        for part in events.chunks(): ...             DataFrames, some rows at a time
        events.columns_only(["id", "amount"])        all rows of some columns
        events.query("select ... from data ...")     SQL, where DuckDB is installed
    """

    def __init__(self, entry):
        self._entry = entry
        self.name, self.path, self.rows = entry.variable, entry.path, entry.rows

    def __repr__(self):
        rows = "" if self.rows is None else f", {self.rows:,} rows"
        return f"<{self.name}: {self._entry.format}{rows}, too large to load; .chunks(), .columns_only([...]), .query(sql)>"

    def chunks(self, rows=ROWS, columns=None):
        """DataFrames of at most `rows` rows each."""
        entry, pd = self._entry, pandas()
        if pd is None:
            raise Unreadable(f"there is no pandas here; read {self.path} yourself")
        if entry.format == "parquet":
            for batch in parquet_file(entry).iter_batches(batch_size=rows, columns=columns):
                yield batch.to_pandas()
        elif entry.format == "csv":
            parts = pd.read_csv(entry.path, chunksize=rows, usecols=columns, **csv_options(entry))
            for part in parts:
                yield dated(pd, entry, part)
        elif entry.format == "jsonl":
            for records in batches(lines(entry), rows):
                if columns is not None:
                    records = [{name: record.get(name) for name in columns} for record in records]
                yield dated(pd, entry, pd.DataFrame(records))
        else:
            raise Unreadable(f"{self.path} is one JSON document and cannot be read by parts")

    def columns_only(self, columns):
        pd = pandas()
        return pd.concat(list(self.chunks(columns=list(columns))), ignore_index=True)

    def query(self, sql):
        """The answer to `sql` as a DataFrame; the dataset is the table `data`."""
        try:
            import duckdb
        except ImportError:
            raise Unreadable("there is no DuckDB here; use .chunks() or .columns_only([...])") from None
        scan = {"parquet": "read_parquet", "csv": "read_csv", "jsonl": "read_json"}[self._entry.format]
        connection = duckdb.connect()
        quoted = self.path.replace("'", "''")
        connection.execute(f"create view data as select * from {scan}('{quoted}')")
        return connection.execute(sql).df()


def parquet_file(entry):
    try:
        import pyarrow.parquet
    except ImportError:
        raise Unreadable(f"there is no pyarrow here to read {entry.path} by parts") from None
    return pyarrow.parquet.ParquetFile(entry.path)


def batches(records, size):
    batch = []
    for record in records:
        batch.append(record)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


class Pending:
    """Stands in a variable until its dataset is first used.

    A cell that names the variable finds the dataset itself there. This object
    is only met by code that reaches the variable some other way.
    """

    def __init__(self, entry, load):
        self.__dict__.update(_entry=entry, _load=load)

    def __repr__(self):
        entry = self._entry
        return f"<{entry.variable}: {os.path.basename(entry.path)}, loaded when it is first used>"

    def __getattr__(self, name):
        if name.startswith("__") or name.startswith("_repr_") or name.startswith("_ipython_"):
            # Displays ask for these; looking must not load.
            raise AttributeError(name)
        return getattr(self._load(), name)

    def __getitem__(self, key):
        return self._load()[key]

    def __len__(self):
        return len(self._load())

    def __iter__(self):
        return iter(self._load())


def shape(data):
    """What can be said of `data` without showing any of it."""
    kind = type(data).__name__
    if hasattr(data, "shape") and len(data.shape) == 2:
        return f"{kind}, {count(data.shape[0], 'row')} × {count(data.shape[1], 'column')}"
    if isinstance(data, dict):
        return f"dict, {count(len(data), 'key')}"
    if isinstance(data, list):
        return f"list of {len(data):,}" + (" dicts" if is_records(data) else "")
    return kind


def count(number, word):
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def size(number):
    for unit in ("bytes", "kB", "MB"):
        if number < 1000 or unit == "MB":
            return f"{number} bytes" if unit == "bytes" else f"{number:,.1f} {unit}"
        number /= 1000


def how_to_go_on(entry, error):
    """One line for a dataset that could not be loaded."""
    if isinstance(error, MemoryError):
        reason = "it does not fit into memory"
    elif isinstance(error, FileNotFoundError):
        return f"there is no file {entry.path}; go on without it and say so in the result"
    elif isinstance(error, Unreadable):
        return str(error)
    else:
        text = " ".join(str(error).split())
        reason = f"{type(error).__name__}: {text[:160]}"
    part = {
        "json": f"open({entry.path!r}) and read what is there",
        "jsonl": f"read {entry.path!r} line by line with json.loads and skip bad lines",
        "csv": f"try pandas.read_csv({entry.path!r}, on_bad_lines='skip', nrows=…) or csv.reader",
        "parquet": f"try pyarrow.parquet.ParquetFile({entry.path!r}).iter_batches()",
    }[entry.format]
    return f"{reason}; {part}"
