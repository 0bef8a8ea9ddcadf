"""Knows values that came from today's clock, and sees them meet the data.

A moment of the clock is as good as unique, so values are known again wherever
they turn up: in a column, in a dictionary, as text. `seen` is what probes call
(see `probes`); operators of pandas are watched besides. A finding needs all of
this: a value from the clock, a date of the data, one compared with or taken
from the other, and data that ends at least two days before today.
"""

import datetime
import functools
import re
import time

from .probes import BY_WORD, CALL, CALLEE, CLOCKS, COMPARE, PAIR, PART, RESULT, SQL, SUM, WORDS
from .reports import CLOCK, user_line

# A site that has been looked at this often is not looked at any more: a loop
# over a million rows must not pay for it a million times.
VISITS = 1000
# Beyond this a loop is reading the clock; what matters was read before.
KNOWN = 20_000
# Time zones and late exports make yesterday's data today's.
DAYS = 2
READERS = (time.time, time.time_ns, time.localtime, time.gmtime)
BUILDERS = ("datetime", "date", "Timestamp")
DATED = re.compile(r"\d{4}-\d\d")
# Numbers that can be seconds, or smaller units, since 1970.
EPOCH = 10 ** 8
LONG = datetime.timedelta(days=1)
SCANNED = 200_000


class Clock:
    def __init__(self, reports, tables, as_of):
        self.reports = reports
        # The datasets as they were loaded; what the manifest says of their day.
        self.tables, self.given = tables, as_of
        self.values = set()
        self.sites = []
        # The last day of the tables with these ids.
        self.latest = None
        self.counted = ()

    def adopt(self, pd):
        """Watches where a date of pandas meets another value."""
        series, index, dates = pd.Series, pd.Index, pd.DatetimeIndex
        for owner, name in ((series, "_cmp_method"), (series, "_arith_method"), (index, "_cmp_method"), (dates, "_arith_method")):
            if hasattr(owner, name):
                setattr(owner, name, self.around_operator(getattr(owner, name)))
        dates.slice_indexer = self.around_slice(dates.slice_indexer)

    def around_operator(self, method):
        @functools.wraps(method)
        def watched(column, other, op):
            if self.values:
                try:
                    self.meet_column(column, other, op)
                except Exception:
                    # A guard that fails has nothing to say.
                    pass
            return method(column, other, op)

        return watched

    def around_slice(self, method):
        @functools.wraps(method)
        def watched(index, start=None, end=None, step=None):
            if self.values:
                try:
                    if self.knows(start) or self.knows(end):
                        self.tell("dates of the data are cut at", index, pandas_line())
                except Exception:
                    # As above.
                    pass
            return method(index, start, end, step)

        return watched

    # Values.

    def learn(self, value):
        key = key_of(value)
        if key is not None and len(self.values) < KNOWN:
            self.values.add(key)

    def knows(self, value):
        return bool(self.values) and key_of(value) in self.values

    # Probes.

    def seen(self, number, slot, value):
        """What a probe calls: answers `value`, whatever happens."""
        try:
            site = self.sites[number]
            # Readings are always learned, or a stopwatch would look like data.
            if site.visits < VISITS or site.kind == CALL and site.detail in CLOCKS:
                self.visit(site, slot, value)
        except Exception:
            # As above.
            pass
        return value

    def visit(self, site, slot, value):
        if slot == RESULT:
            slots, site.slots = site.slots, {}
            self.made(site, value, slots)
            return
        site.visits += 1
        site.slots[slot] = value
        if site.kind == SQL:
            if slot == 0 or self.knows(value):
                self.tell("a query relates dates to", None, site.line)
        elif slot > 0 and slot - 1 in site.slots:
            if site.kind == SUM and site.detail == ("-", False):
                self.meet(site.slots[0], value, "time is measured from the data to", site.line)
            elif site.kind in (COMPARE, PAIR):
                self.meet(site.slots[slot - 1], value, "a date of the data is compared with", site.line)
            elif site.kind == PART:
                self.meet_part(site)

    def forget(self):
        """Lets go of operands; expressions that failed still have theirs."""
        for site in self.sites:
            if site.slots:
                site.slots = {}

    def made(self, site, value, slots):
        """The result of an expression: does it come from the clock?"""
        if site.kind == SUM:
            left, right = slots.get(0), slots.get(1)
            if self.knows(left) != self.knows(right):
                self.learn(value)
                shift = right if self.knows(left) else left
                if site.detail[0] == "+" and is_long(shift):
                    self.tell("a date is counted on from", None, site.line)
        elif self.is_derived(site.detail, slots):
            self.learn(value)

    def is_derived(self, name, slots):
        callee, first = slots.get(CALLEE), slots.get(0)
        owner = getattr(callee, "__self__", None)
        if name in CLOCKS or name == "strftime":
            if isinstance(owner, type) and issubclass(owner, datetime.date) or any(callee is reader for reader in READERS):
                return name != "strftime"
            if callee is time.strftime:
                return True
        if name in BY_WORD and isinstance(first, str) and first in WORDS:
            return True
        if owner is not None and not isinstance(owner, type) and self.knows(owner):
            return True
        return self.knows(first) or name in BUILDERS and type(first) is int

    # Meetings.

    def meet(self, left, right, what, line):
        known = self.knows(left)
        if known == self.knows(right):
            return
        clock, data = (left, right) if known else (right, left)
        if is_data(data, clock) and not is_recent(data):
            self.tell(what, data, line)

    def meet_part(self, site):
        part, place = site.detail
        value, day = site.slots.get(place), self.day()
        now = datetime.date.today()
        if day is None or type(value) is not int or value != part_of(now, part) or part_of(day, part) == value:
            return
        self.tell(f"the {part} of the data is compared with that of", None, site.line)

    def meet_column(self, column, other, op):
        kind = getattr(column.dtype, "kind", "O")
        name = op.__name__.strip("_")
        if kind == "m":
            if name in ("add", "radd") and self.knows(other):
                self.tell("dates are counted on from", None, pandas_line())
            return
        if hasattr(other, "dtype") and getattr(other, "ndim", 0) == 1:
            if kind != "M" or getattr(other.dtype, "kind", "O") != "M" or not len(column) or not len(other):
                return
            here, there = self.knows(first_of(column)), self.knows(first_of(other))
            if here == there:
                return
            column = other if here else column
        elif not self.knows(other):
            return
        elif kind not in "MOiuf" and not isinstance(other, str):
            return
        if name in ("add", "radd", "mul", "rmul"):
            return
        what = "time is measured from the data to" if "sub" in name else "dates of the data are compared with"
        self.tell(what, column, pandas_line())

    # Days.

    def tell(self, what, data, line):
        """Reports, if the data really speaks of another day."""
        if line is None:
            return
        today, own = datetime.date.today(), latest_of(data)
        day = self.day() or own
        if day is None or (today - day).days < DAYS or own is not None and abs((today - own).days) < DAYS:
            return
        self.reports.tell(
            CLOCK, f"{what} today's clock ({today}), but the data ends on {day}",
            f"Count from the date in the record itself, or from the last day of the data ({day})",
            line, today=str(today), data_ends=str(day),
        )

    def day(self):
        """The last day of the data: as the manifest says, or as the tables do."""
        given = self.given()
        if given is not None:
            return given
        tables = self.tables()
        ids = [id(table) for table in tables]
        if ids != self.counted:
            self.counted = ids
            self.latest = max((day for table in tables for day in days_of(table)), default=None)
        return self.latest


def key_of(value):
    """By which a value is known again, or `None` for what no clock gives."""
    if isinstance(value, datetime.date):
        if value != value:
            return None
        if isinstance(value, datetime.datetime):
            return value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond
        return value.year, value.month, value.day, 0, 0, 0, 0
    kind = type(value)
    if kind is str:
        return value if 7 <= len(value) <= 40 and value[:4].isdigit() else None
    if kind is int or kind is float or kind.__name__ == "float64":
        return float(value) if value > EPOCH else None
    if kind.__name__ == "datetime64":
        return key_of(value.astype("datetime64[us]").item())
    return None


def is_data(data, clock):
    """Whether `data` can be a date beside `clock`."""
    if isinstance(data, datetime.date):
        return data == data
    if isinstance(data, str):
        return isinstance(clock, str) and DATED.match(data) is not None
    if isinstance(data, (int, float)):
        return isinstance(clock, (int, float)) and EPOCH < data < clock * 3 and data * 30 > clock
    if type(data).__name__ == "datetime64":
        return True
    if type(data).__module__.partition(".")[0] == "polars":
        return True
    return type(data).__name__ == "ndarray" and data.dtype.kind == "M"


def is_recent(value):
    """Whether a single date is one of these days: a stopwatch, a file's age."""
    if isinstance(value, datetime.datetime):
        value = value.date()
    elif isinstance(value, (int, float)):
        while value > 1e11:
            value /= 1000
        value = datetime.date.fromtimestamp(value)
    return isinstance(value, datetime.date) and abs((datetime.date.today() - value).days) < DAYS


def is_long(shift):
    if isinstance(shift, datetime.timedelta):
        return shift >= LONG
    name = type(shift).__name__
    if name == "timedelta64":
        return shift.astype("timedelta64[s]").astype(int) >= 86_400
    if name == "relativedelta":
        return (shift.years, shift.months, shift.days) > (0, 0, 0)
    return hasattr(shift, "rollforward")


def part_of(day, part):
    if part in ("year", "month", "day"):
        return getattr(day, part)
    if part == "quarter":
        return (day.month + 2) // 3
    return day.isocalendar()[1] if part == "week" else day.timetuple().tm_yday


def pandas_line():
    """Where user code stands below pandas, or `None` if another library does."""
    return user_line(through="/pandas/")


def first_of(values):
    return values.iloc[0] if hasattr(values, "iloc") else values[0]


def latest_of(data):
    """The last day in `data`, if there are days in it."""
    if isinstance(data, datetime.date):
        # One record says nothing about where the data ends.
        return None
    if data is None or not hasattr(data, "dtype"):
        return None
    kind = getattr(data.dtype, "kind", "O")
    if kind == "M":
        return as_day(str(data.max())[:10])
    if kind == "O" and len(data):
        texts = [text for text in data[:SCANNED] if isinstance(text, str) and DATED.match(text)]
        return as_day(max(texts, default="")[:10])
    return None


def days_of(table):
    """The last day of each column that has days, of those that are not to come."""
    today = datetime.date.today()
    for name in table.columns:
        column = table[name]
        kind = getattr(column.dtype, "kind", "O")
        first = next((value for value in column.iloc[:100] if value is not None and value == value), None)
        if kind == "M" or isinstance(first, str) and DATED.match(first):
            day = latest_of(column if kind == "M" else column.astype(object))
            if day is not None and day <= today + datetime.timedelta(days=1):
                yield day


def as_day(text):
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None
