#!/usr/bin/env python3
"""Turns a solution into what a model would say that had thought of it: one line of JSON for each turn.

A line is `{"text": …, "tool": …, "arguments": {…}}`: what is said, which tool
is called, and with what. Every cell is a call of `execute_python`; the last
turn calls `finish` with an answer in which RESULT stands for what the last cell
printed. Nothing here knows the labels: a wrong solution gives a wrong answer.
"""

import argparse
import json
import sys
from typing import NamedTuple

sys.dont_write_bytecode = True

import questions  # noqa: E402

RESULT = "{{result}}"


class Turn(NamedTuple):
    text: str
    tool: str
    arguments: dict


def turns(cells):
    """The turns that play `cells`, in order."""
    for cell in cells:
        yield Turn(cell.text, "execute_python", {"code": cell.code})
    yield Turn("That is the answer.", "finish", {"answer": RESULT})


def prompt(question):
    """What a run is asked: the question, how it is to be understood, and how it is to be answered."""
    return f"{question.question}\n\nConstraints: {question.constraints}\n\nAnswer in this format: {question.format}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("id", type=int, help="the question's number")
    parser.add_argument("--prompt", action="store_true", help="print what the run is asked instead")
    options = parser.parse_args()
    question = questions.load()[options.id]
    if options.prompt:
        print(prompt(question), end="")
        return
    for turn in turns(question.cells()):
        print(json.dumps(turn._asdict()))


if __name__ == "__main__":
    main()
