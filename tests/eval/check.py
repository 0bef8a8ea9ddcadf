#!/usr/bin/env python3
"""Runs every solution in this Python, without a sandbox, and judges what its last cell prints.

Needs the packages of the template `python-data`. Fails if a solution is wrong,
if a question has none, or if one breaks the rules of README.md.
"""

import argparse
import contextlib
import io
import re
import sys
import traceback
import warnings

import pandas

sys.dont_write_bytecode = True

import judge  # noqa: E402
import questions  # noqa: E402

# A value that is written out instead of computed.
LITERAL = re.compile(r"@\w+\[(?!\{)")
# Tables are there already; a solution that looks for a file works in one place only.
READS = re.compile(r"\b(open|read_csv|read_table|load_data)\(")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ids", nargs="*", type=int, help="only these questions")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what every cell prints")
    return parser.parse_args()


def broken_rules(cells):
    if not 2 <= len(cells) <= 4:
        yield f"it has {len(cells)} cells, not 2 to 4"
    for cell in cells:
        if not cell.text:
            yield "a cell says nothing before it runs"
        if READS.search(cell.code):
            yield "a cell reads files"
        if LITERAL.search(cell.code):
            yield "a cell prints an answer that it did not compute"


def run(cells, variables):
    """What each cell prints, one after the other, in one namespace."""
    for cell in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell.code, "cell", "exec"), variables)
        yield printed.getvalue()


def failures(question, verbose):
    """Why the solution of `question` fails; empty if it does not."""
    if not question.solution.exists():
        return ["there is no solution"]
    cells = question.cells()
    found = list(broken_rules(cells))
    output = ""
    try:
        for output in run(cells, {question.variable: pandas.read_csv(question.table)}):
            if verbose:
                print(output, end="")
    except Exception:
        return [*found, traceback.format_exc(limit=-1).rstrip()]
    verdicts = judge.judge(output, question.labels)
    return found + [str(verdict) for verdict in verdicts if not verdict.right]


def strays(asked):
    """Solutions to questions that nobody asks."""
    return sorted({path.name for path in questions.HERE.glob("solutions/*.py")} - {q.solution.name for q in asked})


def main():
    options = arguments()
    # Warnings of libraries are for the author of a cell; --verbose shows them.
    warnings.simplefilter("default" if options.verbose else "ignore")
    every = questions.load()
    asked = [every[number] for number in options.ids] or list(every.values())
    failed = 0
    for question in asked:
        found = failures(question, options.verbose)
        failed += bool(found)
        for reason in found:
            print(f"{question.id}: {reason}", file=sys.stderr)
    stray = strays(every.values())
    for name in stray:
        print(f"solutions/{name}: there is no such question", file=sys.stderr)
    print(f"{len(asked) - failed} passed, {failed} failed")
    return 1 if failed or stray else 0


if __name__ == "__main__":
    sys.exit(main())
