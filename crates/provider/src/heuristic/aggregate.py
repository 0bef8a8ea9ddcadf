def shown(value):
    if value is None:
        return ""
    if isinstance(value, float):
        text = f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) >= 1 or value == 0 else f"{value:.6g}"
    else:
        text = str(value)
    return text.replace("|", "\\|").replace("\n", " ")[:80]


def measures(values, count):
    found = {"count": float(count)}
    if values:
        found["sum"] = math.fsum(values)
        found["mean"] = statistics.fmean(values)
        found["median"] = float(statistics.median(values))
        found["min"], found["max"] = min(values), max(values)
        found["std"] = statistics.stdev(values) if len(values) > 1 else 0.0
    return found


def correlation(pairs):
    if len(pairs) < 2 or len({a for a, _ in pairs}) < 2 or len({b for _, b in pairs}) < 2:
        return None
    return statistics.correlation(*map(list, zip(*pairs)))


def joined(rows, other, join):
    """Each row with the first row of the other dataset that has the same key."""
    index = {}
    for row in other:
        index.setdefault(str(row.get(join["right"])), row)
    both = []
    for row in rows:
        match = index.get(str(row.get(join["left"])))
        if match is not None:
            both.append({**{f"{join['name']}.{key}": value for key, value in match.items()}, **row})
    return both


def table(head, body):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for line in body:
        print("| " + " | ".join(shown(value) for value in line) + " |")


def read(name):
    entry = next(entry for entry in listed()[0] if entry["variable"] == name)
    data, problem = load(entry)
    if problem:
        raise RuntimeError(problem)
    return data


def numbers(data, rows, column):
    """The numbers of a column, and what has to be said of those that are none."""
    values = [data.number(row, column) for row in rows]
    lost = sum(value is None and not is_missing(row.get(column)) for value, row in zip(values, rows))
    if lost:
        said.append(f"{lost} of {len(rows)} values of `{column}` are no numbers and were left out.")
    vote = data.vote(column)
    if vote["?"] and not vote["."] and not vote[","]:
        example = next(row[column] for row in data.rows if tells(row.get(column)) == "?")
        said.append(f"`{column}` has values such as {example}, which was read as {shown(data.number({column: example}, column))}.")
    return values


def unit_of(date, unit):
    """The month, or the like, of a date; as text it sorts by time."""
    if unit == "week":
        year, week, _ = date.isocalendar()
        return f"{year}-W{week:02}"
    return {
        "day": date.isoformat(),
        "weekday": WEEKDAYS[date.weekday()],
        "month": f"{date.year}-{date.month:02}",
        "quarter": f"{date.year}-Q{(date.month + 2) // 3}",
        "year": str(date.year),
    }[unit]


WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def in_time(name):
    """Names sort as text, but the days of a week."""
    return [WEEKDAYS.index(part) if ASK["unit"] == "weekday" and part == name[-1] else part for part in name]


def picked(order):
    """The part of what is sorted that is shown."""
    return order[ASK["rank"] - 1 : ASK["rank"]] if ASK["rank"] else order[: ASK["most"]]


def note_ties(order, value_of, what):
    """Says if what is shown could as well be another part of what is sorted."""
    shown_to = ASK["rank"] or ASK["most"]
    edges = [shown_to] + ([shown_to - 1] if ASK["rank"] else [])
    if any(0 < edge < len(order) and value_of(order[edge - 1]) == value_of(order[edge]) for edge in edges):
        said.append(f"Tie: others have the same {what}, so the choice among them is arbitrary.")


def is_within(value, limit):
    first, last = float(limit["numbers"][0]), float(limit["numbers"][-1])
    return {
        "over": value > first,
        "at least": value >= first,
        "under": value < first,
        "at most": value <= first,
        "equal to": value == first,
        "between": first <= value <= last,
    }[limit["operator"]]


def back(date, count, unit):
    """The day after which so many units end with this date."""
    if unit in ("day", "week"):
        return date - datetime.timedelta(days=count * (7 if unit == "week" else 1))
    months = date.year * 12 + date.month - 1 - count * {"month": 1, "quarter": 3, "year": 12}[unit]
    year, month = divmod(months, 12)
    for day in range(date.day, 0, -1):
        try:
            return datetime.date(year, month + 1, day)
        except ValueError:
            continue


def within(rows, period):
    """Rows whose date is in a period."""
    dated = [(data.date(row, ASK["date"]), row) for row in rows]
    lost = sum(date is None for date, _ in dated)
    if lost:
        said.append(f"{lost} of {len(rows)} rows have no date in `{ASK['date']}` and were left out.")
    dated = [(date, row) for date, row in dated if date]
    if "last" in period:
        every = [date for date in (data.date(row, ASK["date"]) for row in data.rows) if date]
        first, last = back(max(every), period["last"], period["unit"]), max(every)
        said.append(f"From {first + datetime.timedelta(days=1)} to {last}, the last date in the data.")
        return [row for date, row in dated if date > first]
    first, last = period["from"] or "", period["to"] or "9999-99-99"
    return [row for date, row in dated if first <= date.isoformat() < last]


data = read(ASK["dataset"])
rows, said = data.rows, []
print("RESULT-BEGIN")
if ASK["join"]:
    before = len(rows)
    rows = joined(rows, read(ASK["join"]["name"]).rows, ASK["join"])
    if len(rows) < before:
        said.append(f"Warning: {before - len(rows)} of {before} rows had no partner in `{ASK['join']['name']}`.")
for where in ASK["where"]:
    if where["not"]:
        there = [row for row in rows if not is_missing(row.get(where["column"]))]
        if len(there) < len(rows):
            said.append(f"{len(rows) - len(there)} of {len(rows)} rows have no `{where['column']}` and were left out.")
        rows = there
    rows = [row for row in rows if (str(row.get(where["column"])) in where["values"]) != where["not"]]
for limit in ASK["limits"]:
    found = numbers(data, rows, limit["column"])
    rows = [row for row, value in zip(rows, found) if value is not None and is_within(value, limit)]
if ASK["period"]:
    rows = within(rows, ASK["period"])
    if not rows:
        said.append("No row of the data is in this time.")
number_column = ASK["number"]
values = numbers(data, rows, number_column) if number_column else [None] * len(rows)
if ASK["measure"] == "correlation":
    pairs = list(zip(values, numbers(data, rows, ASK["second"])))
    pairs = [pair for pair in pairs if None not in pair]
    head = ["column", "column", "rows", "correlation"]
    table(head, [[number_column, ASK["second"], len(pairs), correlation(pairs)]])
elif ASK["rows"]:
    order = [(value, row) for value, row in zip(values, rows) if value is not None]
    order.sort(key=lambda pair: pair[0], reverse=not ASK["ascending"])
    shows = [column for column in data.columns() if column != number_column][:7]
    table(shows + [number_column], [[row.get(name) for name in shows] + [value] for value, row in picked(order)])
    print(f"\n{len(picked(order))} of {len(order)} rows, sorted by {number_column}.")
    note_ties(order, lambda pair: pair[0], number_column)
elif ASK["groups"] or ASK["unit"]:
    groups = {}
    for row, value in zip(rows, values):
        name = [row.get(column) for column in ASK["groups"]]
        if ASK["unit"]:
            date = data.date(row, ASK["date"])
            name.append(date and unit_of(date, ASK["unit"]))
        if not any(map(is_missing, name)):
            groups.setdefault(tuple(map(str, name)), []).append(value)
    found = {
        name: measures([value for value in group if value is not None], len(group)) for name, group in groups.items()
    }
    names = ["count"] + (["sum", "mean", "median", "min", "max"] if number_column else [])
    asked = [name for name in ASK["measures"] if name in names + ["std"]] or ["count"]
    by = asked[0]
    names = asked + [name for name in names if name not in asked]
    last = float("inf") if ASK["ascending"] else float("-inf")
    order = sorted(sorted(found), key=lambda name: found[name].get(by, last), reverse=not ASK["ascending"])
    order = sorted(found, key=in_time) if ASK["series"] else order
    if ASK["names"] and order and not ASK["rank"]:
        best = found[order[0]].get(by)
        first = [f"`{shown(', '.join(name))}`" for name in order if found[name].get(by) == best]
        have = "has" if len(first) == 1 else "have"
        which = "lowest" if ASK["ascending"] else "highest"
        print(f"{', '.join(first[:5])} {have} the {which} {by}: {shown(best)}.\n")
    head = ASK["groups"] + ([ASK["unit"]] if ASK["unit"] else [])
    table(head + names, [[*name] + [found[name].get(measure) for measure in names] for name in picked(order)])
    print(f"\n{len(picked(order))} of {len(order)} groups, sorted by {', '.join(head) if ASK['series'] else by}.")
    if not ASK["series"]:
        note_ties(order, lambda name: found[name].get(by), by)
else:
    found = measures([value for value in values if value is not None], len(rows))
    if ASK["second"]:
        different = {str(row.get(ASK["second"])) for row in rows if not is_missing(row.get(ASK["second"]))}
        found = {"distinct " + ASK["second"]: len(different), **found}
    asked = [name for name in ASK["measures"] if name in found]
    order = asked + [name for name in found if name not in asked]
    table(["measure", "value"], [[name, found[name]] for name in order])
for line in said:
    print("\n" + line)
print("RESULT-END")
