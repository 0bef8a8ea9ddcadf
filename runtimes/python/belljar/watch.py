"""Ties the guards to the cells of a shell, once `load_data` is in use."""

import ast
import builtins
import datetime

from . import datasets, offer
from .clock import Clock
from .display import once_loaded
from .joins import Joins
from .probes import NAME, Reach
from .reports import Reports

current = None
# As a manifest names them.
GUARDS = ("joins", "dates")


class Watch:
    """Sees every cell before it is compiled, and what `load_data` has loaded."""

    def __init__(self, shell):
        global current
        current = self
        self.shell = shell
        # What the running cell names.
        self.names = set()
        self.reports = Reports(shell)
        self.reach = Reach()
        tables = datasets.state.frames
        self.clock = Clock(self.reports, tables, as_of)
        self.joins = Joins(self.reports, tables, self.name_of)
        self.active = False
        # The guards that the manifest leaves on.
        self.guards = wanted_guards()
        # In `builtins`, so that `%reset` does not take it away from functions.
        setattr(builtins, NAME, self.clock.seen)
        shell.ast_transformers.append(self)

    def begin(self):
        """A cell is about to run."""
        self.reports.begin()
        self.clock.forget()

    def visit(self, tree):
        """What IPython calls with the syntax tree of a cell."""
        self.names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if datasets.state.pending:
            datasets.need(self.names)
        if "dates" in self.guards:
            try:
                self.reach.instrument(tree, self.clock.sites)
            except Exception:
                # A guard that fails has nothing to say.
                pass
        return tree

    def start(self):
        if self.guards and not self.active:
            self.active = True
            once_loaded("pandas", self.adopt)

    def adopt(self, pandas):
        for name, guard in (("joins", self.joins), ("dates", self.clock)):
            if name not in self.guards:
                continue
            try:
                guard.adopt(pandas)
            except Exception:
                # A pandas of another make is left alone.
                continue

    def name_of(self, table, otherwise):
        """What user code calls `table`."""
        names = (name for name, value in self.shell.user_ns.items() if value is table and not name.startswith("_"))
        return next(names, otherwise)


def start(namespace):
    """`load_data` is running. Answers the names that the cell uses around it."""
    if current is None or namespace is not current.shell.user_ns:
        return set()
    current.start()
    return current.names


def wanted_guards():
    try:
        given = datasets.Manifest(offer.manifest()).guards
    except datasets.ManifestError:
        # `load_data` will say so.
        return frozenset()
    if isinstance(given, dict):
        return frozenset(name for name in GUARDS if given.get(name, True))
    return frozenset(GUARDS if given else ())


def as_of():
    """The latest day that the manifest gives for its datasets."""
    manifest = datasets.state.manifest
    days = []
    for entry in manifest.entries if manifest else ():
        try:
            days.append(datetime.date.fromisoformat(str(entry.as_of)[:10]))
        except ValueError:
            continue
    return max(days, default=None)
