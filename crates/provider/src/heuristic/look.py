MOST_LOOKED_AT = 200_000
# A column with more values than this is not one that rows are chosen by.
MOST_VALUES = 50
YES_AND_NO = [{"yes", "no"}, {"true", "false"}, {"y", "n"}]
# What is printed must not be cut off.
MOST_SHAPES, MOST_NOTES = 2600, 1000


def may_be_meant(text):
    return any(word == text if len(word) < 3 else word[:3] in text for word in ASK["words"])


def column_of(table, column):
    """Its name, what it holds, how many different values, and those that may be meant."""
    rows = table.rows[:MOST_LOOKED_AT]
    there = [row for row in rows if not is_missing(row.get(column))]
    values = {str(row[column]) for row in there}
    missing = len(rows) - len(there)
    different = len(table.rows) if len(values) == MOST_LOOKED_AT else len(values)
    sample = there[:2000]
    if sample and sum(table.number(row, column) is not None for row in sample) >= 0.9 * len(sample):
        return [column, "number", different, [], missing]
    if table.order(column):
        dates = [date for date in (table.date(row, column) for row in there) if date]
        if dates:
            return [column, "date", different, [min(dates).isoformat(), max(dates).isoformat()], missing]
    meant = []
    if different <= MOST_VALUES:
        meant = sorted(value for value in values if len(value) <= 60 and may_be_meant(value.lower()))[:8]
    if {value.lower() for value in values} in YES_AND_NO:
        meant = sorted(values)
    return [column, "word", different, meant, missing]


def relevance(column):
    name, _, _, meant, _ = column
    return -sum(word in name.lower() for word in ASK["words"]) - 2 * bool(meant)


def cut(shape, budget):
    """As much of it as may be printed, the columns that may be meant first."""
    columns = sorted(shape["columns"], key=relevance)
    while columns and len(json.dumps({**shape, "columns": columns})) > budget:
        columns.pop()
    kept = [column[0] for column in columns]
    columns = [column for column in shape["columns"] if column[0] in kept]
    return {**shape, "columns": columns}


entries, notes = listed()
shapes = []
for entry in entries:
    # One after the other: they need not fit into memory together.
    table, problem = load(entry)
    if problem:
        notes.insert(0, problem)
        continue
    columns = [column_of(table, column) for column in table.columns()]
    shapes.append({"name": table.name, "rows": len(table.rows), "columns": columns})
    notes += table.notes
for shape in shapes:
    seen = cut(shape, MOST_SHAPES // len(shapes))
    print("SHAPE", json.dumps(seen))
    if len(seen["columns"]) < len(shape["columns"]):
        notes.append(f"`{shape['name']}` has {len(shape['columns'])} columns; {len(seen['columns'])} were considered.")
length = 0
for note in notes:
    note = " ".join(note.split())[:240]
    length += len(note)
    if length > MOST_NOTES:
        print("NOTE There is more to be said of the files.")
        break
    print("NOTE", note)
