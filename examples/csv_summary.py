"""Summarises a small table, with the standard library only."""

import csv
import io
import statistics
from collections import defaultdict

TABLE = """\
region,product,units,price
north,lamp,12,19.90
north,chair,3,74.50
south,lamp,7,19.90
south,desk,2,249.00
west,chair,9,74.50
west,lamp,1,19.90
"""


def main():
    revenue = defaultdict(float)
    units = []
    for row in csv.DictReader(io.StringIO(TABLE)):
        revenue[row["region"]] += int(row["units"]) * float(row["price"])
        units.append(int(row["units"]))

    print(f"{'region':<8}{'revenue':>10}")
    for region, total in sorted(revenue.items(), key=lambda item: -item[1]):
        print(f"{region:<8}{total:>10.2f}")
    print(f"orders: {len(units)}, median units: {statistics.median(units)}")


if __name__ == "__main__":
    main()
