"""The analyst's files, and the right answers about them, computed without Belljar."""

import collections
import csv
import datetime
import io
import random
import statistics

REGIONS = ("North", "South", "West", "East")
PRODUCTS = ("Anvil", "Bolt", "Clamp", "Drill", "Easel")
CITIES = ("Köln", "München", "Aachen", "Düsseldorf")


def orders():
    """400 orders of a half-year: two columns of numbers, so that `sold most` has two meanings."""
    chance = random.Random(21)
    first = datetime.date(2026, 1, 1)
    for number in range(400):
        units = chance.randint(1, 40)
        yield {
            "order_id": 1000 + number,
            "order_date": (first + datetime.timedelta(days=chance.randrange(181))).isoformat(),
            "region": chance.choice(REGIONS),
            "product": chance.choice(PRODUCTS),
            "stage": chance.choice(("won", "lost", "open")),
            "units": units,
            # No two orders have the same revenue.
            "revenue": round(units * chance.uniform(5, 90) + number / 100, 2),
        }


ORDERS = list(orders())


def table(rows, delimiter=",", header=True):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def revenue(rows=None):
    return round(sum(row["revenue"] for row in (ORDERS if rows is None else rows)), 2)


def by(column, values=revenue, rows=None):
    """What a function makes of the rows of each group."""
    groups = collections.defaultdict(list)
    for row in ORDERS if rows is None else rows:
        groups[column(row) if callable(column) else row[column]].append(row)
    return {group: values(found) for group, found in groups.items()}


def mean(rows):
    return statistics.fmean(row["revenue"] for row in rows)


def median(rows):
    return statistics.median(row["revenue"] for row in rows)


def correlation():
    return statistics.correlation([row["units"] for row in ORDERS], [row["revenue"] for row in ORDERS])


# Numbers and dates as a German spreadsheet writes them.
def umsatz():
    chance = random.Random(7)
    for number in range(90):
        yield {
            "datum": (datetime.date(2026, 2, 1) + datetime.timedelta(days=number)).strftime("%d.%m.%Y"),
            "stadt": CITIES[number % len(CITIES)],
            "betrag": f"{chance.randint(1000, 9999_99) / 100:,.2f}".translate(str.maketrans(",.", ".,")),
        }


UMSATZ = list(umsatz())


def german(text):
    return float(text.replace(".", "").replace(",", "."))


# Five of the customers come again, and the orders write their ids in small letters.
CUSTOMERS = [
    {"customer_id": f"C{1 + number % 80:03}", "country": ("DE", "FR", "IT", "ES")[number % 80 % 4]} for number in range(85)
]
BUYERS = [{"customer_id": f"C{1 + number:03}", "country": ("DE", "FR", "IT", "ES")[number % 4]} for number in range(80)]
BOUGHT = [{"order": number, "customer": f"C{1 + number % 80:03}", "amount": 10 + number} for number in range(300)]


def amount_by_country():
    country = {row["customer_id"]: row["country"] for row in BUYERS}
    return by(lambda row: country[row["customer"]], lambda rows: sum(row["amount"] for row in rows), BOUGHT)
