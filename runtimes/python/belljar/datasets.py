"""Reads the manifest that the host wrote, and loads what it lists.

The manifest is `datasets.json`, version 1; docs/datasets.md describes it. Only
shapes are printed: the model must not read rows that nobody asked for.
"""

import json
import keyword
import os
import weakref

from . import offer, readers
from .readers import Pending, Reader

VERSION = 1
FORMATS = tuple(readers.READERS)
STRATEGIES = ("whole", "lazy", "sampled", "converted")


class ManifestError(Exception):
    """The manifest does not say what it should."""


class Entry:
    """One dataset of the manifest."""

    def __init__(self, given, folder):
        self.name = str(given["name"])
        self.variable = given["variable"]
        self.path = os.path.join(folder, given["path"])
        self.format = given["format"]
        self.strategy = given["strategy"]
        self.bytes, self.rows = given.get("bytes"), given.get("rows")
        # What it takes when loaded, as the host has estimated it.
        self.memory = given.get("memory")
        # The day that the data speaks of: its latest date, as the host found it.
        self.as_of = given.get("as_of")
        self.sentence = given.get("sentence") or ""
        options = given.get("options") or {}
        self.encoding = options.get("encoding") or "utf-8-sig"
        self.encoding_errors = options.get("encoding_errors") or "strict"
        self.compression = options.get("compression")
        self.delimiter = options.get("delimiter") or ","
        # What the columns are called, if not by a header as it is.
        self.columns = options.get("columns")
        self.has_header = options.get("header", True)
        self.decimal_commas = options.get("decimal_commas") or ()
        self.sheet = options.get("sheet")
        self.records = options.get("records") or ()
        self.text = options.get("text") or ()
        self.dates = options.get("dates") or {}
        if not self.variable.isidentifier() or keyword.iskeyword(self.variable):
            raise ValueError(f"{self.variable!r} cannot be the name of a variable")
        if self.format not in FORMATS or self.strategy not in STRATEGIES:
            raise ValueError(f"no format {self.format!r} or no strategy {self.strategy!r}")


class Manifest:
    def __init__(self, path):
        try:
            with open(path, encoding="utf-8") as file:
                given = json.load(file)
            if given["version"] != VERSION:
                raise ManifestError(f"{path} has version {given['version']}; this runtime reads version {VERSION}")
            # What one dataset may take of memory when it is loaded.
            self.budget = given.get("budget")
            self.guards = given.get("guards", True)
            self.entries = [Entry(entry, os.path.dirname(path)) for entry in given["datasets"]]
        except FileNotFoundError:
            raise ManifestError(f"there are no datasets here: no {path}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ManifestError(f"{path} cannot be read: {type(error).__name__}: {error}") from None

    def is_too_large(self, entry):
        """Whether it can only be read by parts."""
        by_parts = entry.format not in ("json", "excel")
        return by_parts and None not in (self.budget, entry.memory) and entry.memory > self.budget


class Loaded:
    """What `load_data` has done in this process."""

    def __init__(self):
        self.manifest = None
        # Variables that wait for their first use: their names, and where.
        self.pending = {}
        self.done = set()
        # Tables as they were loaded, for guards; not held, or a table that was
        # filtered into itself would be in memory twice.
        self.tables = {}

    def frames(self):
        """The tables that are still there."""
        return [table for table in (there() for there in self.tables.values()) if table is not None]


state = Loaded()


def load(namespace, names=(), reload=False):
    """Loads datasets into `namespace` and prints one line for each."""
    manifest = state.manifest = Manifest(offer.manifest())
    chosen = [entry for entry in manifest.entries if not names or {entry.variable, entry.name} & set(names)]
    unknown = set(names) - {name for entry in manifest.entries for name in (entry.variable, entry.name)}
    # Before anything is loaded: guards look at what is loaded from now on.
    named = watched(namespace)
    width = max((len(entry.variable) for entry in chosen), default=0)
    for entry in chosen:
        print(f"{entry.variable:<{width}}  {place(manifest, entry, namespace, named, reload)}")
    for name in sorted(unknown):
        print(f"{name}: no such dataset; there are {', '.join(entry.variable for entry in manifest.entries)}")


def place(manifest, entry, namespace, named, reload):
    """Puts one dataset into its variable; the answer says what is there now."""
    present = namespace.get(entry.variable)
    if entry.variable in state.done and present is not None and not reload:
        return f"{readers.shape(present)}, loaded before"
    if entry.strategy in ("lazy", "converted"):
        if manifest.is_too_large(entry):
            namespace[entry.variable] = Reader(entry)
            return f"too large to load whole{rows(entry)}: {READING.format(entry.variable)}{origin(entry)}"
        if entry.variable not in named:
            namespace[entry.variable] = Pending(entry, lambda: fetch(entry, namespace))
            state.pending[entry.variable] = entry, namespace
            return f"loaded when first used{rows(entry)}{origin(entry)}"
    try:
        data = fetch(entry, namespace)
    except Exception as error:
        return f"not loaded: {readers.how_to_go_on(entry, error)}"
    return readers.shape(data) + origin(entry)


READING = "{0}.chunks(), {0}.columns_only([...]), {0}.query(sql)"


def rows(entry):
    return "" if entry.rows is None else f", {readers.count(entry.rows, 'row')}"


def origin(entry):
    parts = [entry.name] + ([] if entry.bytes is None else [readers.size(entry.bytes)])
    if entry.strategy == "sampled":
        parts.append(entry.sentence or "a sample")
    return f"  ({', '.join(parts)})"


def fetch(entry, namespace):
    """Loads a dataset and puts it into its variable."""
    state.pending.pop(entry.variable, None)
    data = namespace[entry.variable] = readers.whole(entry)
    state.done.add(entry.variable)
    if type(data).__name__ == "DataFrame":
        state.tables[entry.variable] = weakref.ref(data)
    return data


def need(names):
    """Loads what waits under one of `names`, before the code that uses it."""
    for name in [name for name in state.pending if name in names]:
        entry, namespace = state.pending[name]
        if isinstance(namespace.get(name), Pending):
            try:
                data = fetch(entry, namespace)
            except Exception as error:
                print(f"{name}: not loaded: {readers.how_to_go_on(entry, error)}")
            else:
                print(f"{name}  {readers.shape(data)}{origin(entry)}")
        else:
            # Somebody has put something else there.
            del state.pending[name]


def watched(namespace):
    """Starts the guards; the names that the running cell uses."""
    from . import watch

    return watch.start(namespace)
