"""What counts as right, and what does not."""

import pytest

from judge import given, is_right, judge


def right(answer, *labels):
    return is_right(judge(answer, list(labels)))


def why(answer, *labels):
    return [verdict.why for verdict in judge(answer, list(labels)) if not verdict.right]


def test_a_number_is_right_however_it_is_written():
    for written in ["34.65", "34.650", "+34.65", "3.465e1", " 34.65 "]:
        assert right(f"The mean is @mean[{written}].", ("mean", "34.65")), written


def test_a_number_that_was_rounded_otherwise_is_wrong():
    assert why("@mean[34.7]", ("mean", "34.65")) == ["`34.7`, but the label says `34.65`"]
    assert not right("@mean[34.6500011]", ("mean", "34.65"))
    assert right("@mean[34.6500009]", ("mean", "34.65"))


def test_large_numbers_are_held_to_their_last_digit():
    assert right("@x[-259162995.02]", ("x", "-259162995.02"))
    assert not right("@x[-259162995.03]", ("x", "-259162995.02"))


def test_a_sign_counts():
    assert not right("@r[0.55]", ("r", "-0.55"))
    assert right("@r[-0.00]", ("r", "0.0"))


@pytest.mark.parametrize("value", ["nan", "inf", "1_0", "ten", "10%", ""])
def test_what_is_no_number_is_not_taken_for_one(value):
    assert not right(f"@count[{value}]", ("count", "10"))


def test_text_is_compared_exactly():
    assert right("@kind[not normal]", ("kind", "not normal"))
    for written in ["Not normal", "not_normal", "normal", "not  normal", '"not normal"']:
        assert not right(f"@kind[{written}]", ("kind", "not normal")), written


def test_lists_are_compared_item_by_item():
    label = ("values", "9.03,9.0")
    assert right("@values[9.03, 9.00]", label)
    assert not right("@values[9.0, 9.03]", label)
    assert not right("@values[9.03]", label)
    assert not right("@values[9.03, 9.0, 9.0]", label)


def test_an_empty_list_is_given_and_not_left_out():
    assert right("@outliers[]", ("outliers", ""))
    assert why("There are none.", ("outliers", "")) == ["the answer does not give it"]
    assert not right("@outliers[none]", ("outliers", ""))


def test_every_labelled_name_has_to_be_right():
    labels = [("mean", "1.5"), ("median", "2")]
    assert right("@mean[1.5] @median[2.0]", *labels)
    assert not right("@mean[1.5] @median[3]", *labels)
    assert not right("@mean[1.5]", *labels)


def test_names_are_compared_exactly():
    assert not right("@Mean[1]", ("mean", "1"))
    assert not right("@mean_value[1]", ("mean", "1"))
    assert not right("mean[1]", ("mean", "1"))


def test_what_has_no_label_is_ignored():
    assert right("@mean[1] @median[wrong]", ("mean", "1"))


def test_two_different_values_are_no_answer():
    assert why("@mean[1] or @mean[2]", ("mean", "1")) == ["given more than once: `1`, `2`"]
    assert right("@mean[1], so it is @mean[1]", ("mean", "1"))


def test_nothing_to_compare_is_not_right():
    assert not right("@mean[1]")


def test_values_end_with_their_line():
    assert given("@a[1\n] @b[2]") == {"b": ["2"]}
