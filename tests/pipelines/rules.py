"""Runs without a model: fixed rules play the agents. They know no task that fails without a network."""

from tasks import check, of_kind

QUESTION = "Write a Python script that computes the mean and median of a list of numbers"


class Plain:
    """A task of no table."""

    data, memory = {}, None

    def __init__(self, name, question):
        self.name, self.question = name, question


def kinds(events):
    return [one["message"]["type"] for one in of_kind(events, "stage_message")]


def known(surface):
    """A task that the rules know: one program."""
    run = surface.begin(Plain("rules", QUESTION))
    events, _ = surface.finish(run)
    check(kinds(events) == ["plan", "code", "execution"], f"the messages are {kinds(events)}")
    check(events[-1]["result"].startswith("Mean   : 14.80\nMedian : 13.00\n"), f"{events[-1]}")
    return "one program"


def unknown(surface):
    """One that they do not know: a human is asked, and the answer names one that they do."""
    run = surface.begin(Plain("rules-unknown", "Paint the fence of the garden, please."))
    question = surface.question(run, 1)
    check(question.startswith("No program could be made: Fixed rules plan here"), question)
    surface.answers(run)[0]("Print the first primes.")
    events, _ = surface.finish(run)
    check(kinds(events) == ["question", "plan", "code", "execution"], f"the messages are {kinds(events)}")
    check(events[-1]["result"].startswith("[2, 3, 5, 7, 11"), f"{events[-1]}")
    return "a question, its answer, and one program"


CASES = {"fixed rules": known, "fixed rules do not know the task": unknown}
