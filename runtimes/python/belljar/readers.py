"""Reads one dataset, whole or in parts, by its format.

A list of records becomes a DataFrame, any other JSON stays what it is.
Values are kept as the file has them: nothing is guessed from the names of
columns, text that looks like a number stays text where JSON says so, and
dates are dates only in the columns that the manifest names.
"""

import contextlib
import csv
import datetime
import gzip
import io
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


def opened(entry):
    """The dataset's text, unpacked and decoded."""
    return io.TextIOWrapper(unpacked(entry), entry.encoding, entry.encoding_errors, newline="")


def unpacked(entry):
    """The dataset's bytes as they were before they were compressed."""
    if entry.compression is None:
        return open(entry.path, "rb")
    if entry.compression == "gzip":
        return gzip.open(entry.path)
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        try:
            import pyarrow
        except ImportError:
            raise Unreadable(f"there is nothing here to unpack {entry.name} with: no pyarrow") from None
        return pyarrow.input_stream(entry.path, compression="zstd")
    return zstd.open(entry.path)


def read_json(entry):
    with opened(entry) as file:
        data = json.load(file)
    for key in entry.records:
        data = data[key]
    return framed(entry, data)


def read_lines(entry):
    return framed(entry, list(lines(entry)))


def lines(entry):
    with opened(entry) as file:
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
    with csv_source(entry) as source:
        return finished(pd, entry, pd.read_csv(source, **csv_options(entry)))


def csv_source(entry):
    """What pandas reads: the path, unless it could not open what is there as the manifest says."""
    if entry.compression != "zstd":
        return contextlib.nullcontext(entry.path)
    return unpacked(entry)


def csv_options(entry, columns=None):
    text = (*entry.text, *entry.decimal_commas)
    if entry.columns is not None:
        # By number while they are read: pandas has ideas of its own about names that come again.
        number = {name: place for place, name in enumerate(entry.columns)}
        text = [number[name] for name in text if name in number]
        columns = columns and [number[name] for name in columns]
    options = {
        "sep": entry.delimiter, "encoding": entry.encoding, "usecols": columns,
        "dtype": {name: str for name in text}, "low_memory": False,
        # Delimiters at the ends of rows make no column of row labels.
        "index_col": False,
    }
    if entry.encoding_errors != "strict":
        options["encoding_errors"] = entry.encoding_errors
    # Whatever the file's name ends with.
    options["compression"] = "gzip" if entry.compression == "gzip" else None
    if entry.columns is not None:
        options["names"] = range(len(entry.columns))
        options["header"] = 0 if entry.has_header else None
    return options


def finished(pd, entry, frame):
    """Columns by their names, numbers with decimal commas as numbers, and dates as dates."""
    if entry.columns is not None:
        frame.columns = [entry.columns[number] for number in frame.columns]
    for name in entry.decimal_commas:
        if name in frame.columns:
            text = frame[name].str.strip().str.replace(".", "", regex=False)
            try:
                frame[name] = text.str.replace(",", ".", regex=False).astype(float)
            except ValueError:
                # What is no number after all stays as it is.
                continue
    return dated(pd, entry, frame)


def rows(entry):
    """Records of a CSV file as dictionaries of text."""
    with opened(entry) as file:
        records = csv.DictReader(file, entry.columns, delimiter=entry.delimiter)
        if entry.columns is not None and entry.has_header:
            next(records, None)
        yield from records


# What Excel shows where a formula failed.
FAILED = {"#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#GETTING_DATA"}


def read_excel(entry):
    """The table of a workbook, where the manifest says it is: as a DataFrame, or a list of dicts."""
    try:
        import openpyxl
    except ImportError:
        raise Unreadable(f"there is no openpyxl here to read {entry.name} with; build the template anew, or install it") from None
    book = openpyxl.load_workbook(entry.path, read_only=True, data_only=True)
    try:
        sheet = book[entry.sheet["name"]]
        # What the file says of its size may be wrong.
        sheet.reset_dimensions()
        first = entry.sheet["first_column"]
        cells = sheet.iter_rows(
            min_row=entry.sheet["first_row"] + 1, min_col=first + 1, max_col=first + len(entry.columns), values_only=True
        )
        records = [tuple(map(cell, row)) for row in cells if any(value not in (None, "") for value in row)]
    finally:
        book.close()
    pd = pandas()
    if pd is None:
        return [dict(zip(entry.columns, record)) for record in records]
    return dated(pd, entry, pd.DataFrame(records, columns=entry.columns))


def cell(value):
    """A cell's value as the description has it: whole numbers are integers, times are text."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= 2**53 else value
    if isinstance(value, str):
        return None if value == "" or value in FAILED else value
    if isinstance(value, (datetime.time, datetime.timedelta)):
        return clock(value)
    return value


def clock(value):
    if isinstance(value, datetime.time):
        value = datetime.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    seconds = round(abs(value.total_seconds()))
    sign = "-" if value < datetime.timedelta() else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def read_parquet(entry):
    pd = pandas()
    if pd is not None:
        return pd.read_parquet(entry.path)
    try:
        import pyarrow.parquet
    except ImportError:
        raise Unreadable("this template has neither pandas nor pyarrow to read Parquet with") from None
    return pyarrow.parquet.read_table(entry.path)


READERS = {"json": read_json, "jsonl": read_lines, "csv": read_csv, "parquet": read_parquet, "excel": read_excel}


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
            with csv_source(entry) as source:
                for part in pd.read_csv(source, chunksize=rows, **csv_options(entry, columns)):
                    yield finished(pd, entry, part)
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
        given = "".join(f", {name} = {value}" for name, value in sql_options(self._entry).items())
        connection.execute(f"create view data as select * from {scan}({literal(self.path)}{given})")
        return connection.execute(sql).df()


def sql_options(entry):
    """How DuckDB reads what it would not guess."""
    if entry.encoding.startswith("utf-16") or entry.encoding == "cp1252":
        raise Unreadable(f"DuckDB does not read {entry.encoding} here; use .chunks() or .columns_only([...])")
    options = {}
    if entry.compression is not None:
        options["compression"] = literal(entry.compression)
    if entry.format == "csv" and entry.encoding == "latin-1":
        options["encoding"] = literal("latin-1")
    if entry.format == "csv" and (entry.columns is not None or not entry.has_header):
        options["header"] = str(entry.has_header).lower()
        options["names"] = f"[{', '.join(literal(name) for name in entry.columns)}]"
    return options


def literal(text):
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


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
        "excel": f"try pandas.read_excel({entry.path!r}, sheet_name=None)",
    }[entry.format]
    return f"{reason}; {part}"
