"""Watches joins of pandas: empty ones, keys that nearly match, fan-outs.

Every check begins with a question that costs nothing: how many rows came out.
Only a suspicion is looked into, on at most `SAMPLE` keys of a side where one
side is small, and nothing that a check does can reach the result.
"""

import functools
import inspect
import sys
from itertools import islice

from . import nearness
from .nearness import SAMPLE
from .reports import EMPTY_JOIN, FAN_OUT, KEY_MISMATCH, user_line

# Rows that are looked at first; mostly they answer already.
FIRST = 1000
# A literal mapping this small may simply name values that are not there.
SMALL_MAPPING = 6
KINDS = ("inner", "left", "right", "outer")
# Only text has forms; numbers and dates match or they do not.
TEXT_TYPES = ("object", "str", "string", "category")


class Joins:
    def __init__(self, reports, tables, name_of):
        self.reports = reports
        # The datasets as they were loaded, and what user code calls a table.
        self.tables, self.name_of = tables, name_of
        self.busy = False

    def adopt(self, pd):
        """Puts the guards around what joins, wherever it can be found."""
        self.pd = pd
        frame, series = pd.DataFrame, pd.Series
        merge = self.around(pd.merge, self.after_merge)
        for module in (pd, sys.modules.get(f"{pd.__name__}.core.reshape.merge"), sys.modules.get(f"{pd.__name__}.core.reshape.api")):
            if getattr(module, "merge", None) is merge.__wrapped__:
                module.merge = merge
        frame.merge = self.around(frame.merge, self.after_merge)
        frame.join = self.around(frame.join, self.after_join)
        series.map = self.around(series.map, self.after_map)
        series.isin = self.around(series.isin, self.after_isin)

    def around(self, function, judge):
        bind = inspect.signature(function).bind

        @functools.wraps(function)
        def watched(*arguments, **options):
            if self.busy:
                return function(*arguments, **options)
            self.busy = True
            result = None
            try:
                result = function(*arguments, **options)
            finally:
                try:
                    line = user_line()
                    if line is not None:
                        judge(result, line, bind(*arguments, **options).arguments)
                except Exception:
                    # A guard that fails has nothing to say.
                    pass
                finally:
                    self.busy = False
            return result

        return watched

    def after_merge(self, result, line, given):
        left, right = self.framed(given.get("left", given.get("self"))), self.framed(given["right"])
        join = Join("merge", left, right, given.get("how", "inner"), result)
        join.shows_sides = bool(given.get("indicator"))
        join.validate = given.get("validate")
        join.keys = keys_of(left, right, *(given.get(name) for name in (
            "on", "left_on", "right_on", "left_index", "right_index",
        )))
        self.judge(join, line)

    def after_join(self, result, line, given):
        left, other, on = given["self"], given["other"], given.get("on")
        if not isinstance(other, (self.pd.DataFrame, self.pd.Series)):
            return
        right = self.framed(other)
        if on is None and is_counted(left.index) and is_counted(right.index):
            # Rows beside each other: not by a key.
            return
        join = Join("join", left, right, given.get("how", "left"), result)
        join.validate = given.get("validate")
        join.keys = keys_of(left, right, None, on, None, on is None, True)
        self.judge(join, line)

    def framed(self, table):
        return table.to_frame() if isinstance(table, self.pd.Series) else table

    def judge(self, join, line):
        if join.how not in KINDS or not join.keys or not len(join.left) or not len(join.right):
            return
        if join.result is None:
            # pandas has refused; say why, if it is about the keys.
            self.tell_mismatch(join, line, everywhere=True)
        elif join.is_empty():
            if not self.tell_mismatch(join, line, everywhere=True) and join.how != "outer" and not self.is_meant(join):
                self.tell_empty(join, line)
        else:
            if len(join.result) > max(len(join.left), len(join.right)) and self.is_fan_out(join):
                self.tell_fan_out(join, line)
            if join.sampled():
                self.tell_mismatch(join, line, everywhere=False)

    def tell_mismatch(self, join, line, everywhere):
        for left_name, left, right_name, right in join.keys:
            found = nearly_equal(left, right) if everywhere else mostly_equal(left, right)
            if found:
                what, advice = found
                keys = f"{self.column(join.left, left_name)} and {self.column(join.right, right_name)}"
                outcome = "nothing matched" if everywhere else "some keys did not match"
                self.reports.tell(
                    KEY_MISMATCH, f"{join.verb} on {keys}: {outcome}, because they differ by {what}",
                    capital(advice), line, left_rows=len(join.left), right_rows=len(join.right), reason=what,
                    left_type=str(left.dtype), right_type=str(right.dtype),
                )
                return True
        return False

    def column(self, table, name):
        owner = self.name_of(table, None)
        return f"{owner}.{name}" if owner else str(name)

    def tell_empty(self, join, line):
        keys = " and ".join(f"{one}" if one == other else f"{one} = {other}" for one, _, other, _ in join.keys)
        left, right = self.name_of(join.left, "the left table"), self.name_of(join.right, "the right table")
        outcome = "gave 0 rows" if join.how == "inner" else "matched no row"
        self.reports.tell(
            EMPTY_JOIN, f"{join.verb} of {left} ({len(join.left):,} rows) and {right} ({len(join.right):,} rows) on {keys} {outcome}",
            "The key is probably wrong: compare the values of both columns before concluding that there is nothing",
            line, left_rows=len(join.left), right_rows=len(join.right), keys=[[str(one), str(other)] for one, _, other, _ in join.keys],
        )

    def is_meant(self, join):
        """Whether the columns do match where the tables are whole: then it was
        a filter that left nothing, and nothing is the answer."""
        if len(join.keys) != 1:
            return False
        left_name, left, right_name, right = join.keys[0]
        wholes = [
            [table[name] for table in self.tables() if name in table.columns and sample(values).isin(table[name]).all()]
            for name, values in ((left_name, left), (right_name, right))
        ]
        return any(sample(one).isin(other).any() for one in wholes[0] for other in wholes[1])

    def is_fan_out(self, join):
        if join.validate in ("m:m", "many_to_many"):
            return False
        left, right = key_frame(self.pd, join.keys, 1), key_frame(self.pd, join.keys, 3)
        if not left.duplicated().any() or not right.duplicated().any():
            return False
        if left.equals(right) or (left.nunique() <= 1).all() or (right.nunique() <= 1).all():
            # A table with itself makes pairs; a constant makes every combination.
            return False
        names = {name for one, _, other, _ in join.keys for name in (one, other)}
        tables = join.left, join.right
        return any(has_measure(table, names) for table in tables) or all(has_own_key(table, names) for table in tables)

    def tell_fan_out(self, join, line):
        left, right = self.name_of(join.left, "the left table"), self.name_of(join.right, "the right table")
        keys = " and ".join(f"{one}" if one == other else f"{one} = {other}" for one, _, other, _ in join.keys)
        self.reports.tell(
            FAN_OUT, f"{join.verb} of {left} ({len(join.left):,} rows) and {right} ({len(join.right):,} rows) on {keys} gave "
            f"{len(join.result):,} rows: the key repeats on both sides, so sums and counts of the result are too high",
            "Aggregate one side first or join on a key that is unique on one; validate='m:m' if every pair is meant",
            line, left_rows=len(join.left), right_rows=len(join.right), result_rows=len(join.result),
        )

    def after_map(self, result, line, given):
        series, func = given["self"], given.get("func", given.get("arg"))
        is_table = isinstance(func, self.pd.Series)
        if not is_table and (not isinstance(func, dict) or hasattr(func, "__missing__")):
            return
        if result is None or not len(func) or has_value(result) or not has_value(series):
            return
        keys = func.index if is_table else self.pd.Index(list(islice(func, SAMPLE)))
        values = func if is_table else self.pd.Series(list(islice(func.values(), SAMPLE)), dtype=object)
        if not has_value(values):
            return
        join = Join("map", series, values, "left", result)
        join.keys = [(series.name, series, keys.name or "keys", keys)]
        if not self.tell_mismatch(join, line, everywhere=True) and len(keys) >= SMALL_MAPPING and not self.is_meant(join):
            self.tell_empty(join, line)

    def after_isin(self, result, line, given):
        series, values = given["self"], given["values"]
        if result is None or not len(series) or bool(result.any()) or isinstance(values, dict):
            return
        if not isinstance(values, (self.pd.Series, self.pd.Index)):
            values = self.pd.Index(list(islice(values, SAMPLE)), dtype=object)
        if len(values):
            # That nothing is there may well be so; only a reason is a finding.
            join = Join("isin", series, values, "inner", result)
            join.keys = [(series.name, series, values.name or "values", values)]
            self.tell_mismatch(join, line, everywhere=True)


class Join:
    """One join and what came of it; `result` is `None` if it was refused."""

    def __init__(self, verb, left, right, how, result):
        self.verb, self.left, self.right, self.how, self.result = verb, left, right, how, result
        # Name and values on the left, name and values on the right.
        self.keys = []
        self.validate = None
        # Whoever asks which side a row came from expects some from one only.
        self.shows_sides = False

    def is_empty(self):
        if self.how == "inner":
            return len(self.result) == 0
        if self.shows_sides:
            return False
        if self.how == "outer":
            return len(self.result) == len(self.left) + len(self.right)
        mine, other = (self.left, self.right) if self.how == "left" else (self.right, self.left)
        keys = {name for one, _, two, _ in self.keys for name in (one, two)}
        added = [name for name in other.columns if name not in mine.columns and name not in keys and name in self.result.columns]
        if any(has_value(self.result[name]) for name in added[:8]):
            return False
        return any(has_value(other[name]) for name in added[:8])

    def sampled(self):
        """Whether one side is small enough to know all its keys."""
        return len(self.keys) == 1 and min(len(self.left), len(self.right)) <= SAMPLE and not self.shows_sides


def keys_of(left, right, on, left_on, right_on, left_index, right_index):
    """Pairs of key columns, as pandas finds them."""
    if left_index or right_index or left_on is not None or right_on is not None:
        lefts = index_of(left) if left_index else columns_of(left, left_on if left_on is not None else on)
        rights = index_of(right) if right_index else columns_of(right, right_on if right_on is not None else on)
    else:
        names = list(left.columns.intersection(right.columns)) if on is None else on
        lefts, rights = columns_of(left, names), columns_of(right, names)
    if not lefts or len(lefts) != len(rights):
        return []
    return [(*one, *other) for one, other in zip(lefts, rights)]


def columns_of(table, names):
    names = names if isinstance(names, (list, tuple)) else [names]
    found = []
    for name in names:
        if name in table.columns:
            found.append((name, table[name]))
        elif name in table.index.names:
            found.append((name, table.index.get_level_values(name)))
        else:
            return []
    return found


def index_of(table):
    index = table.index
    return [(index.names[level] or "index", index.get_level_values(level)) for level in range(index.nlevels)]


def nearly_equal(left, right):
    """What keeps two columns apart that have no key in common."""
    return nearness.reason(distinct(sample(left)), distinct(sample(right)), True)


def mostly_equal(left, right):
    """What keeps some keys apart, while others match. That a key is not there
    can only be said of a side that is known as a whole."""
    if str(left.dtype) not in TEXT_TYPES or str(right.dtype) not in TEXT_TYPES:
        return None
    lefts, rights = set(distinct(sample(left))), set(distinct(sample(right)))
    for one, other, is_whole in ((lefts, rights, len(right) <= SAMPLE), (rights, lefts, len(left) <= SAMPLE)):
        alone = one - other if is_whole else ()
        found = nearness.reason(alone, other, False) if alone else None
        if found:
            return found
    return None


def distinct(values):
    """Keys as plain objects; by numpy, because tables of Arrow are slow at it."""
    return [key for key in dict.fromkeys(values.to_numpy(dtype=object).tolist()) if key is not None and key == key]


def is_counted(index):
    """Whether nobody has set it: 0, 1, 2, …"""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1 and index.name is None


def sample(values):
    """At most `SAMPLE` values from all over the column."""
    step = -(-len(values) // SAMPLE)
    return part(values, slice(None, None, step)) if step > 1 else values


def part(values, piece):
    """By position, whether it is a column or an index."""
    return values.iloc[piece] if hasattr(values, "iloc") else values[piece]


def has_value(values):
    return bool(part(values, slice(FIRST)).notna().any() or (len(values) > FIRST and values.notna().any()))


def key_frame(pd, keys, place):
    return pd.DataFrame({number: pd.Series(key[place]).reset_index(drop=True) for number, key in enumerate(keys)})


def has_measure(table, keys):
    """Whether there is something to add up: a number that is no identifier."""
    return any(
        name not in keys and not is_identifier(name) and kind.kind in "iuf"
        for name, kind in zip(table.columns, table.dtypes)
    )


def has_own_key(table, keys):
    """Whether each row is a thing of its own, with an identifier."""
    return any(
        name not in keys and is_identifier(name) and table[name].iloc[:SAMPLE * 5].is_unique for name in table.columns
    )


def is_identifier(name):
    name = str(name).lower()
    return name in ("id", "key", "uuid") or name.endswith(("_id", "id_", "_key", "_no", "_code")) or name.startswith("id_")


def capital(text):
    return text[:1].upper() + text[1:]
