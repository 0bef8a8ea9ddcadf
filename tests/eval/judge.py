#!/usr/bin/env python3
"""Compares an answer with DABench's labels: name by name, text exactly, numbers to a millionth.

DABench's own evaluation reads `@name[value]` out of an answer, and holds a
value for right if it is the label's text, or a number within 1e-6 of it. The
same is done here, with three differences, each of which explains itself:

- Lists (values with commas) are compared item by item, so that `1, 2` is `1,2`.
- A name that is given twice with different values is wrong; there, the last counts.
- A number is digits, not whatever `float()` takes: `nan` and `1_0` are text.

The tolerance is absolute, as there. The formats ask for rounded values, so it
only has to forgive `0.10` for `0.1`; one that grew with the value would forgive
wrong digits of large ones. Names that have no label are ignored: labels leave
out what other libraries may compute differently.

`judge.py ID [FILE]` judges the answer in FILE, or in what is typed in.
"""

import argparse
import re
import sys
from typing import NamedTuple

sys.dont_write_bytecode = True

import questions  # noqa: E402

TOLERANCE = 1e-6
VALUE = re.compile(r"@(\w+)\[(.*?)\]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Verdict(NamedTuple):
    """What became of one labelled name."""

    name: str
    right: bool
    why: str

    def __str__(self):
        return f"{'right' if self.right else 'wrong'}  @{self.name}: {self.why}"


def given(text):
    """All values that an answer gives, by name, in their order and without repetition."""
    values = {}
    for name, value in VALUE.findall(text):
        seen = values.setdefault(name, [])
        if value.strip() not in seen:
            seen.append(value.strip())
    return values


def same_item(value, label):
    if value == label:
        return True
    if NUMBER.fullmatch(value) and NUMBER.fullmatch(label):
        return abs(float(value) - float(label)) < TOLERANCE
    return False


def same(value, label):
    values, labels = ([item.strip() for item in text.split(",")] for text in (value, label))
    return len(values) == len(labels) and all(map(same_item, values, labels))


def verdict(name, label, values):
    if not values:
        return Verdict(name, False, "the answer does not give it")
    if len(values) > 1:
        return Verdict(name, False, f"given more than once: {', '.join(f'`{value}`' for value in values)}")
    if same(values[0], label):
        return Verdict(name, True, f"`{values[0]}`")
    return Verdict(name, False, f"`{values[0]}`, but the label says `{label}`")


def judge(text, labels):
    """A verdict for each of `labels`, a list of (name, value); the answer is right if all are."""
    values = given(text)
    return [verdict(name, label, values.get(name)) for name, label in labels]


def is_right(verdicts):
    return bool(verdicts) and all(verdict.right for verdict in verdicts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("id", type=int, help="the question's number")
    parser.add_argument("file", nargs="?", type=argparse.FileType(), default=sys.stdin, help="the answer")
    options = parser.parse_args()
    verdicts = judge(options.file.read(), questions.load()[options.id].labels)
    print(*verdicts, sep="\n")
    return 0 if is_right(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
