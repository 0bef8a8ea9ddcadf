"""The decision of docs/datasets.md, "What fits", written out and compared with
the examples that every implementation must meet."""

import json
import math
import unittest
from pathlib import Path

RUNTIMES = Path(__file__).resolve().parent.parent
TABLE = json.loads((RUNTIMES / "memory-factors.json").read_text())
EXAMPLES = json.loads((Path(__file__).resolve().parent / "memory-examples.json").read_text())
MOST_HALVINGS = 40


def plan(datasets, memory, disk, factors, mounted=False):
    """What becomes of each dataset, by name."""
    table = {(row["format"], row["shape"]): row for row in factors}

    def left(dataset):
        return dataset["bytes"] >> halvings[dataset["name"]]

    def needs(dataset, which):
        return math.ceil(left(dataset) * table[dataset["format"], dataset["shape"]][which] * TABLE["margin"])

    def has_records(dataset):
        return dataset["format"] != "parquet" and dataset.get("records", True)

    halvings = {dataset["name"]: 0 for dataset in datasets}
    def inside():
        """What files take of the sandbox."""
        return 0 if mounted else sum(map(left, datasets))

    room = min(math.ceil(disk * TABLE["disk_share"]), math.ceil(memory * TABLE["share"]))
    while inside() > room:
        by_size = sorted(datasets, key=lambda dataset: (left(dataset), dataset["name"]))
        can = [one for one in by_size if has_records(one) and left(one) and halvings[one["name"]] < MOST_HALVINGS]
        if not can:
            return {by_size[-1]["name"]: {"strategy": "refused"}}
        halvings[can[-1]["name"]] += 1
    budget = math.ceil((memory - inside()) * TABLE["share"])
    for dataset in datasets:
        while 0 < halvings[dataset["name"]] < MOST_HALVINGS and needs(dataset, "peak") > budget:
            halvings[dataset["name"]] += 1
    budget = math.ceil((memory - inside()) * TABLE["share"])

    whole = sorted(datasets, key=lambda dataset: (needs(dataset, "peak"), dataset["name"]))
    result = {}
    while whole:
        held = sum(needs(dataset, "held") for dataset in whole)
        extra = max(needs(dataset, "peak") - needs(dataset, "held") for dataset in whole)
        if held + extra <= budget:
            break
        dataset = whole.pop()
        if needs(dataset, "peak") <= budget:
            result[dataset["name"]] = {"strategy": "lazy"}
        elif dataset["format"] == "json" and not has_records(dataset):
            result[dataset["name"]] = {"strategy": "file"}
        else:
            result[dataset["name"]] = {"strategy": "parts"}
    result.update({dataset["name"]: {"strategy": "whole"} for dataset in whole})
    for name, count in halvings.items():
        if count:
            result[name]["one_of"] = 2**count
    return result


class Memory(unittest.TestCase):
    def test_every_example_comes_out_as_written(self):
        for example in EXAMPLES["examples"]:
            with self.subTest(example["title"]):
                room = example["memory"], example["disk"], EXAMPLES["factors"], example.get("mounted", False)
                found = plan(example["datasets"], *room)
                self.assertEqual(found, example["plan"])

    def test_every_format_has_measured_factors(self):
        found = {(row["language"], row["format"], row["shape"]) for row in TABLE["factors"]}
        wanted = {("python", form, shape) for form in ("json", "jsonl") for shape in ("flat", "nested", "text")}
        wanted |= {("python", form, shape) for form in ("csv", "parquet") for shape in ("flat", "text")}
        self.assertLessEqual(wanted, found)
        for row in TABLE["factors"]:
            self.assertGreaterEqual(row["peak"], row["held"], row)
            self.assertGreater(row["held"], 0, row)


if __name__ == "__main__":
    unittest.main()
