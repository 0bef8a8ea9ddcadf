"""Scores of answers that are right, and of answers that are not.

The cases of cases.json are also those of `belljar eval`, which reads `@name[value]` in the same way.
"""

import json
import pathlib

import pytest

from judge import given, is_right, judge

CASES = json.loads(pathlib.Path(__file__).with_name("cases.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["answer"])
def test_an_answer_is_judged_by_its_labels(case):
    assert is_right(judge(case["answer"], list(case["labels"].items()))) == case["right"]


def right(answer, *labels):
    return is_right(judge(answer, list(labels)))


def why(answer, *labels):
    return [verdict.why for verdict in judge(answer, list(labels)) if not verdict.right]


def test_a_value_that_was_rounded_otherwise_is_named():
    assert why("@mean[34.7]", ("mean", "34.65")) == ["`34.7`, but the label says `34.65`"]


def test_a_missing_value_is_named():
    assert why("There are none.", ("outliers", "")) == ["the answer does not give it"]


def test_two_different_values_are_no_answer():
    assert why("@mean[1] or @mean[2]", ("mean", "1")) == ["given more than once: `1`, `2`"]


def test_nothing_to_compare_is_not_right():
    assert not right("@mean[1]")


def test_values_end_with_their_line():
    assert given("@a[1\n] @b[2]") == {"b": ["2"]}
