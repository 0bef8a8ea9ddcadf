"""Solutions become turns, and the rules that they are held to can be broken."""

import json
import pathlib
import subprocess
import sys

import pytest

import check
import questions
from oracle import RESULT, turns

GOOD = """\
# %% I look.
print(table.shape)

# %% The answer.
print(f"@rows[{len(table)}]")
"""


def test_a_cell_begins_at_its_mark_and_keeps_its_lines():
    first, second = questions.cells(GOOD)
    assert first == ("I look.", "print(table.shape)")
    assert second == ("The answer.", 'print(f"@rows[{len(table)}]")')


@pytest.mark.parametrize("source", ["", "print(1)\n", "import os\n# %% Late.\nprint(1)\n"])
def test_nothing_runs_before_the_first_mark(source):
    with pytest.raises(ValueError, match="begins with"):
        questions.cells(source)


def test_each_cell_is_a_turn_and_the_last_turn_finishes_with_the_output():
    played = list(turns(questions.cells(GOOD)))
    assert [turn.tool for turn in played] == ["execute_python", "execute_python", "finish"]
    assert played[1].arguments == {"code": 'print(f"@rows[{len(table)}]")'}
    assert RESULT in played[2].arguments["answer"]


def test_the_command_prints_one_line_of_json_for_each_turn():
    number, question = next(iter(questions.load().items()))
    command = [sys.executable, pathlib.Path(__file__).parent / "oracle.py", str(number)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(printed) == len(question.cells()) + 1
    assert all(set(json.loads(line)) == {"text", "tool", "arguments"} for line in printed)


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ('print("@rows[4]")', "did not compute"),
        ("print(f'@a[{1}] @rows[4]')", "did not compute"),
        ("table = pandas.read_csv('a.csv')", "reads files"),
        ("text = open('a.csv').read()", "reads files"),
    ],
)
def test_a_cell_that_cheats_is_found(code, rule):
    assert not list(check.broken_rules(questions.cells(GOOD)))
    assert any(rule in broken for broken in check.broken_rules(questions.cells(f"{GOOD}# %% More.\n{code}\n")))


def test_too_few_and_too_many_cells_are_found():
    cells = questions.cells(GOOD)
    assert list(check.broken_rules(cells[:1])) == ["it has 1 cells, not 2 to 4"]
    assert list(check.broken_rules(cells * 3)) == ["it has 6 cells, not 2 to 4"]


def test_a_silent_cell_is_found():
    assert "a cell says nothing before it runs" in check.broken_rules(questions.cells("# %%\n1\n# %% Two.\n2\n"))


def test_cells_share_what_they_define_and_what_they_print_is_told_apart():
    cells = questions.cells("# %% One.\na = 2\nprint('one')\n# %% Two.\nprint(a * n)\n")
    assert list(check.run(cells, {"n": 21})) == ["one\n", "42\n"]


def test_a_wrong_solution_fails_the_check():
    question = next(iter(questions.load().values()))
    assert check.failures(question, verbose=False) == []
    name, label = question.labels[0]
    wrong = question._replace(labels=[(name, f"{label}1")])
    assert len(check.failures(wrong, verbose=False)) == 1


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("titanic.csv", "titanic"),
        ("2015.csv", "data_2015"),
        ("DES=+2006261.csv", "DES_2006261"),
        ("beauty and the labor market.csv", "beauty_and_the_labor_market"),
        ("import.csv", "data_import"),
    ],
)
def test_a_table_has_a_name_that_python_takes(file, name):
    assert questions.variable(file) == name
    assert name.isidentifier()
