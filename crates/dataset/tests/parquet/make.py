#!/usr/bin/env python3
"""Writes the Parquet files of this test, and what their own libraries read from them.

    pip install -r requirements.txt && ./make.py

Each library writes its files, reads them again, and `truth.json` says what it read: counts of types, distinct values,
ranges and lengths for each path, in the words of `belljar dataset describe --json`. Nothing in it comes from Belljar.
"""

import datetime as dt
import decimal
import json
import math
import random
import re
import uuid
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

FILES = Path(__file__).resolve().parent / "files"
ROWS = 90
UTC = dt.timezone.utc
DAY = dt.datetime(2024, 2, 28, 23, 59, 58, 123456)


def every(n, value, other=None):
    """`value(i)` for each row but every nth, which has `other`."""
    return [other if i % n == n - 1 else value(i) for i in range(ROWS)]


def moments(zone=None):
    return every(9, lambda i: (DAY + dt.timedelta(hours=7 * i, microseconds=i)).replace(tzinfo=zone))


def columns():
    """Name, pyarrow type, values."""
    d = decimal.Decimal
    return [
        ("id", pa.int64(), list(range(1000, 1000 + ROWS))),
        ("bool", pa.bool_(), every(4, lambda i: i % 3 == 0)),
        ("int8", pa.int8(), [i - 45 for i in range(ROWS)]),
        ("int16", pa.int16(), [300 * (i - 45) for i in range(ROWS)]),
        ("int32", pa.int32(), every(7, lambda i: -2_147_483_648 + i)),
        ("int64", pa.int64(), [-9_223_372_036_854_775_808 + i for i in range(ROWS)]),
        ("uint8", pa.uint8(), [255 - i for i in range(ROWS)]),
        ("uint16", pa.uint16(), [65_535 - i for i in range(ROWS)]),
        ("uint32", pa.uint32(), every(5, lambda i: 3_000_000_000 if i else 7)),
        ("uint64", pa.uint64(), [18_446_744_073_709_551_615 - i if i % 2 else i for i in range(ROWS)]),
        ("float16", pa.float16(), [np.float16(i / 4 - 3) for i in range(ROWS)]),
        ("float32", pa.float32(), every(6, lambda i: i / 8 - 5)),
        ("float64", pa.float64(), every(6, lambda i: i * 1.1, math.nan)),
        ("whole", pa.float64(), [float(i % 40) for i in range(ROWS)]),
        ("text", pa.string(), every(8, lambda i: f"größe {i % 50}")),
        ("word", pa.dictionary(pa.int8(), pa.string()), [["red", "green", "blue"][i % 3] for i in range(ROWS)]),
        ("binary", pa.binary(), [bytes([0xff, i]) for i in range(ROWS)]),
        ("fixed", pa.binary(4), every(10, lambda i: bytes([0, 0xfe, 1, i]))),
        ("date", pa.date32(), every(9, lambda i: DAY.date() + dt.timedelta(days=i))),
        ("seconds", pa.timestamp("s"), moments()),
        ("millis", pa.timestamp("ms"), moments()),
        ("micros", pa.timestamp("us"), moments()),
        ("nanos", pa.timestamp("ns"), moments()),
        ("utc", pa.timestamp("us", tz="UTC"), moments(UTC)),
        ("berlin", pa.timestamp("ms", tz="Europe/Berlin"), moments(UTC)),
        ("clock", pa.time64("us"), every(11, lambda i: dt.time(i % 24, 30, i % 60))),
        ("clock_ms", pa.time32("ms"), [dt.time(i % 24, i % 60, 0, 5000) for i in range(ROWS)]),
        ("money", pa.decimal128(9, 2), every(12, lambda i: d(i * 137 - 4000) / 100)),
        ("price", pa.decimal128(18, 4), [d(i * 10**12 + 1234) / 10000 for i in range(ROWS)]),
        ("large", pa.decimal128(38, 10), [d(i) * 10**20 + d("0.0000000001") for i in range(ROWS)]),
        ("huge", pa.decimal256(60, 3), [d(-i) * 10**30 - d("0.125") for i in range(ROWS)]),
        ("count", pa.decimal128(20, 0), [d(i * 3 - 30) for i in range(ROWS)]),
        ("nothing", pa.null(), [None] * ROWS),
    ]


def table(chosen=None):
    taken = [(name, kind, values) for name, kind, values in columns() if chosen is None or name in chosen]
    arrays = [pa.array(values, pa.string()).cast(kind) if pa.types.is_dictionary(kind)
              else pa.array(values, kind, safe=False) for _, kind, values in taken]
    return pa.table(arrays, names=[name for name, _, _ in taken])


def nested():
    points = pa.list_(pa.struct([("x", pa.int32()), ("tag", pa.string())]))
    kinds = [
        ("id", pa.string(), [f"n_{i}" for i in range(ROWS)]),
        ("items", pa.list_(pa.uint32()), every(5, lambda i: [4_000_000_000 + j for j in range(i % 4)])),
        ("holes", pa.list_(pa.float64()), every(6, lambda i: [None, i / 2][: i % 3])),
        ("points", points, every(7, lambda i: [{"x": j, "tag": None if j == 1 else f"t{j}"} for j in range(i % 3)])),
        ("owner", pa.struct([("name", pa.string()), ("at", pa.struct([("day", pa.date32())]))]),
         every(4, lambda i: {"name": f"o{i % 30}", "at": {"day": dt.date(2023, 1, 1 + i % 28)} if i % 2 else None})),
        ("matrix", pa.list_(pa.list_(pa.int16())), [[[i, -i]] * (i % 3) for i in range(ROWS)]),
        ("scores", pa.map_(pa.string(), pa.int64()), every(9, lambda i: [(f"k{j}", i * j) for j in range(i % 4)])),
        ("vector", pa.list_(pa.float32(), 3), [[i / 2, 0.5, -1.0] for i in range(ROWS)]),
    ]
    return pa.table([pa.array(values, kind) for _, kind, values in kinds], names=[name for name, _, _ in kinds])


LONG = ["m" * 70 + f"{i:05d}" for i in range(ROWS - 1)] + ["z" * 1500]


def by_pyarrow():
    pq.write_table(table(), FILES / "pyarrow_types.parquet", row_group_size=40)
    few = ["id", "int32", "uint32", "uint64", "float32", "text", "date", "micros", "money", "bool", "fixed"]
    for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        pq.write_table(table(few), FILES / f"pyarrow_{codec}.parquet", compression=codec)
    pq.write_table(table(["id", "seconds", "nanos", "utc"]), FILES / "pyarrow_int96.parquet",
                   use_deprecated_int96_timestamps=True)
    encodings = {"id": "DELTA_BINARY_PACKED", "int32": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY",
                 "float32": "BYTE_STREAM_SPLIT", "fixed": "DELTA_BYTE_ARRAY", "uint64": "PLAIN"}
    pq.write_table(table(list(encodings)), FILES / "pyarrow_encodings.parquet", data_page_version="2.0",
                   use_dictionary=False, column_encoding=encodings)
    pq.write_table(nested(), FILES / "pyarrow_nested.parquet", row_group_size=50)
    pq.write_table(nested(), FILES / "pyarrow_old_names.parquet", use_compliant_nested_type=False,
                   data_page_version="2.0", compression="zstd")
    pq.write_table(table(["id", "text"]).slice(0, 0), FILES / "pyarrow_empty.parquet")
    pq.write_table(pa.table({"id": range(ROWS), "body": LONG}), FILES / "pyarrow_long.parquet")


def by_duckdb():
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    base.execute(f"""
        CREATE TABLE types AS SELECT
            i AS id, i::UTINYINT AS u8, (65535 - i)::USMALLINT AS u16, (4294967295 - i)::UINTEGER AS u32,
            (18446744073709551615 - i::UHUGEINT)::UBIGINT AS u64, (i - 45)::TINYINT AS i8, (-i)::SMALLINT AS i16,
            (i / 4)::FLOAT AS f32, CASE WHEN i % 8 = 7 THEN 'nan' WHEN i = 3 THEN 'infinity' ELSE i / 3 END::DOUBLE AS f64,
            (i * 137 / 100)::DECIMAL(9, 2) AS money, (i::HUGEINT * 10000000000000000000)::DECIMAL(38, 3) AS large,
            CASE WHEN i % 5 < 4 THEN 'w' || (i % 30) END AS text, ['one', 'two'][1 + i % 2]::ENUM('one', 'two') AS word,
            ('\\xFF\\x00' || chr((65 + i % 20)::INTEGER))::BLOB AS blob, i % 3 = 0 AS flag,
            ('00000000-0000-4000-8000-0000000000' || lpad(i::VARCHAR, 2, '0'))::UUID AS uuid,
            DATE '2020-02-28' + i::INTEGER AS day, TIME '01:02:03' + INTERVAL (i) SECOND AS clock,
            TIMESTAMP '2021-06-01 00:00:00.5' + INTERVAL (i) HOUR AS micros,
            (TIMESTAMP '2021-06-01 00:00:00' + INTERVAL (i) HOUR)::TIMESTAMP_S AS seconds,
            (TIMESTAMP '2021-06-01 00:00:00.25' + INTERVAL (i) HOUR)::TIMESTAMP_MS AS millis,
            (TIMESTAMP '2021-06-01 00:00:00.125' + INTERVAL (i) HOUR)::TIMESTAMP_NS AS nanos,
            (TIMESTAMP '2021-06-01 00:00:00' + INTERVAL (i) HOUR)::TIMESTAMPTZ AS utc,
            INTERVAL (i) DAY AS span, {{'a': i, 'b': 'x' || (i % 4)}}::JSON AS document
        FROM range({ROWS}) t(i)""")
    base.execute(f"COPY types TO '{FILES}/duckdb_types.parquet' (ROW_GROUP_SIZE 2048)")
    base.execute(f"""
        CREATE TABLE nested AS SELECT i AS id, CASE WHEN i % 6 < 5 THEN range(i % 4) END AS numbers,
            CASE WHEN i % 4 < 3 THEN {{'name': 'o' || (i % 30), 'since': DATE '2020-01-01' + i::INTEGER}} END AS owner,
            list_transform(range(i % 3), lambda x: {{'x': x, 'u': (4000000000 + x)::UINTEGER}}) AS points,
            MAP {{'a': i, 'b' || (i % 5): -i}} AS scores
        FROM range({ROWS}) t(i)""")
    base.execute(f"COPY nested TO '{FILES}/duckdb_nested.parquet' (COMPRESSION zstd, PARQUET_VERSION v2)")
    base.execute("CREATE TABLE long AS SELECT * FROM (SELECT unnest(?) AS body, unnest(?) AS id)", [LONG, list(range(ROWS))])
    base.execute(f"COPY long TO '{FILES}/duckdb_long.parquet'")


def by_polars():
    whole = {name: (kind, values) for name, kind, values in columns()}
    taken = ["id", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
             "text", "word", "date", "millis", "micros", "nanos", "utc", "clock", "money", "count", "nothing"]
    frame = pl.from_arrow(table(taken).append_column("binary", pa.array(whole["binary"][1], pa.binary())))
    frame.write_parquet(FILES / "polars_types.parquet", row_group_size=40)
    pl.from_arrow(nested().drop_columns(["scores"])).write_parquet(FILES / "polars_nested.parquet", compression="lz4")
    long = pl.DataFrame({"id": range(ROWS), "body": LONG})
    long.write_parquet(FILES / "polars_long.parquet", statistics="full", use_pyarrow=False)


def related():
    """Three tables that refer to each other, each by another library, and the same as CSV."""
    chance = random.Random(7)
    customers = pa.table({
        "customer_id": pa.array([4_000_000_000 + i for i in range(300)], pa.uint32()),
        "email": [f"c{i}@example.com" for i in range(300)],
        "plan": [["free", "team", "business"][i % 3] for i in range(300)],
        "joined": pa.array([dt.date(2022, 1, 1) + dt.timedelta(days=i) for i in range(300)]),
    })
    orders = pa.table({
        "id": [f"ord_{i:05d}" for i in range(900)],
        "customer_id": pa.array([4_000_000_000 + chance.randrange(240) for _ in range(900)], pa.uint32()),
        "total": pa.array([decimal.Decimal(chance.randrange(100, 90_000)) / 100 for _ in range(900)], pa.decimal128(9, 2)),
        "at": pa.array([DAY.replace(microsecond=0) + dt.timedelta(minutes=13 * i) for i in range(900)], pa.timestamp("ms")),
    })
    # A row for each step of an order: only both columns together are a key. Upper case: a near miss.
    steps = [(f"ord_{order:05d}", step) for order in range(400) for step in range(1, 4)]
    events = pa.table({"order_id": [order for order, _ in steps], "step_id": [step for _, step in steps],
                       "seconds": [chance.random() * 50 for _ in steps]})
    refunds = pa.table({"refund_id": range(200), "order_id": [f"ORD_{chance.randrange(900):05d}" for _ in range(200)]})
    pq.write_table(customers, FILES / "customers.parquet", row_group_size=128)
    duckdb.sql("SELECT * FROM orders").write_parquet(str(FILES / "orders.parquet"))
    pl.from_arrow(events).write_parquet(FILES / "events.parquet", row_group_size=500)
    pl.from_arrow(refunds).write_parquet(FILES / "refunds.parquet")
    for name, rows in [("customers", customers), ("orders", orders), ("events", events), ("refunds", refunds)]:
        pl.from_arrow(rows).write_csv(FILES / f"{name}.csv", datetime_format="%Y-%m-%dT%H:%M:%S")


def rows_of(path):
    """The rows as the library that wrote them reads them, and its own names of the types."""
    if path.name.startswith(("duckdb", "orders")):
        base = duckdb.connect()
        base.execute("SET TimeZone = 'UTC'")
        read = base.execute(f"SELECT * FROM '{path}'")
        names = [column[0] for column in read.description]
        kinds = {row[0]: row[1] for row in base.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()}
        rows = base.execute(f"SELECT * FROM '{path}'").fetchall()
        return [dict(zip(names, row)) for row in rows], kinds
    if path.name.startswith(("polars", "events", "refunds")):
        frame = pl.read_parquet(path)
        return frame.to_dicts(), {name: str(kind) for name, kind in frame.schema.items()}
    read = pq.ParquetFile(path).read()
    return read.to_pylist(maps_as_pydicts="strict"), {field.name: str(field.type) for field in read.schema}


class Column:
    """What was read at one path."""

    def __init__(self):
        self.types = {}
        self.different = {}
        self.numbers, self.dates, self.lengths, self.keys = [], [], [], set()
        self.texts = []

    def add(self, kind):
        self.types[kind] = self.types.get(kind, 0) + 1

    def value(self, shown):
        self.different[shown] = self.different.get(shown, 0) + 1

    def told(self):
        told = {"types": self.types}
        if self.different:
            told["distinct"] = len(self.different)
            if len(self.different) <= 24:
                told["values"] = dict(sorted(self.different.items()))
        if self.numbers:
            told["numbers"] = [min(self.numbers), max(self.numbers)]
        if self.dates:
            told["dates"] = [min(self.dates), max(self.dates)]
        if self.texts:
            told["chars"] = [min(self.texts), max(self.texts)]
        if self.lengths:
            told["lengths"] = [min(self.lengths), max(self.lengths)]
        if self.keys:
            told["keys"] = len(self.keys)
        return told


def look(paths, path, value):
    at = paths.setdefault(path, Column())
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None:
            at.add("null")
        case bool():
            at.add("bool")
            at.value("true" if value else "false")
        case int():
            at.add("int")
            at.value(str(value))
            at.numbers.append(value)
        case float():
            at.add("float")
            if math.isfinite(value):
                at.value(repr(value))
                at.numbers.append(value)
        case decimal.Decimal():
            at.add("int" if value.as_tuple().exponent == 0 else "float")
            at.value(format(value, "f"))
            at.numbers.append(float(value))
        case dt.datetime():
            at.add("string")
            at.value(value.isoformat())
            moment = value.astimezone(UTC) if value.tzinfo else value
            at.dates.append(moment.replace(tzinfo=None).isoformat()[:19])
        case dt.date():
            at.add("string")
            at.value(value.isoformat())
            at.dates.append(value.isoformat())
        case dt.time() | uuid.UUID():
            at.add("string")
            at.value(str(value))
        case dt.timedelta():
            at.add("string")
            at.value(str(value))
        case bytes():
            at.add("string")
            at.value("0x" + value.hex())
            at.texts.append(len(value))
        case str():
            at.add("string")
            at.value(value)
            at.texts.append(len(value))
        case list():
            at.add("array")
            at.lengths.append(len(value))
            for item in value:
                look(paths, path + "[]", item)
        case dict() if path.endswith("scores"):
            at.add("object")
            at.keys.update(value)
            for item in value.values():
                look(paths, path + ".<key>", item)
        case dict():
            at.add("object")
            for name, item in value.items():
                look(paths, f"{path}.{name}" if path else name, item)
        case other:
            raise TypeError(f"{path}: {type(other)}")


WORDS = {
    "bool": "bool", "boolean": "bool", "string": "string", "varchar": "string", "categorical": "string", "json": "json",
    "tinyint": "int8", "smallint": "int16", "integer": "int32", "bigint": "int64", "utinyint": "uint8",
    "usmallint": "uint16", "uinteger": "uint32", "ubigint": "uint64", "halffloat": "float16", "float": "float32",
    "double": "float64", "blob": "binary", "binary": "binary", "fixed_size_binary[4]": "binary[4]", "date": "date",
    "date32[day]": "date", "time": "time[us]", "interval": "interval", "uuid": "uuid", "null": "null",
    "timestamp_ns": "timestamp[ns]", "timestamp with time zone": "timestamp[us, UTC]",
}


def stored(path, name, kind):
    """A library's name of a type, as Belljar calls it. None: nested, or more than the file itself says."""
    kind = kind.lower()
    if kind in WORDS and not (path.name.startswith("polars") and kind == "time"):
        return WORDS[kind]
    if found := re.fullmatch(r"u?int(8|16|32|64)|float(16|32|64)", kind):
        return found[0]
    if found := re.fullmatch(r"decimal(?:128|256)?\((?:precision=)?(\d+), ?(?:scale=)?(\d+)\)", kind):
        return f"decimal({found[1]}, {found[2]})"
    if found := re.fullmatch(r"(timestamp|time32|time64)\[(ms|us|ns)(, tz=.*)?\]", kind):
        return f"{found[1].rstrip('3264')}[{found[2]}{', UTC' if found[3] else ''}]"
    if found := re.fullmatch(r"datetime\(time_unit='(\w+)', time_zone=(none|'utc')\)", kind):
        return f"timestamp[{found[1]}{', UTC' if found[2] != 'none' else ''}]"
    return None


def truth(path):
    rows, kinds = rows_of(path)
    paths = {name: Column() for name in kinds}
    for row in rows:
        for name, value in row.items():
            look(paths, name, value)
    told = {name: at.told() for name, at in paths.items()}
    for name, kind in kinds.items():
        if word := stored(path, name, kind):
            told[name]["stored_as"] = word
    return {"rows": len(rows), "library_types": kinds, "paths": told}


def main():
    FILES.mkdir(exist_ok=True)
    for old in FILES.iterdir():
        old.unlink()
    by_pyarrow()
    by_duckdb()
    by_polars()
    related()
    told = {path.name: truth(path) for path in sorted(FILES.glob("*.parquet"))}
    (FILES / "truth.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
