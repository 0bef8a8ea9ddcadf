"""The questions that are asked here, with their labels, tables and solutions."""

import json
import keyword
import pathlib
import re
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "dabench"
# A line that begins a cell; what stands behind is what the analyst says before running it.
CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)


class Cell(NamedTuple):
    text: str
    code: str


class Question(NamedTuple):
    id: int
    level: str
    question: str
    constraints: str
    format: str
    file_name: str
    labels: list

    @property
    def table(self):
        return DATA / "tables" / self.file_name

    @property
    def variable(self):
        return variable(self.file_name)

    @property
    def solution(self):
        return HERE / "solutions" / f"{self.id:03}.py"

    def cells(self):
        return cells(self.solution.read_text())


def variable(file_name):
    """The name under which cells find a table: the file's stem, made into an identifier."""
    name = re.sub(r"\W+", "_", pathlib.PurePath(file_name).stem)
    return f"data_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name


def cells(source):
    """The cells of a solution. Nothing may stand before the first."""
    before, *rest = CELL.split(source)
    if before or not rest:
        raise ValueError("a solution begins with a line `# %%`")
    return [Cell(text.strip(), code.strip("\n")) for text, code in zip(rest[::2], rest[1::2], strict=True)]


def lines(name):
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def load():
    """Every question, by its number."""
    labels = {line["id"]: [tuple(pair) for pair in line["common_answers"]] for line in lines("labels.jsonl")}
    asked = {}
    for line in lines("questions.jsonl"):
        kept = {field: line[field] for field in Question._fields if field != "labels"}
        asked[line["id"]] = Question(**kept, labels=labels[line["id"]])
    return asked
