"""The steps of one user: each is named by what the user types or wants, and prints a line.

| Line | Means |
|---|---|
| `pass` | the step went as the user needs it |
| `FAIL` | it did not; the lines below say what was expected and what came |
| `skip` | this host cannot do it, and `belljar doctor` says so |
"""

import time


class Wrong(AssertionError):
    """A step went otherwise than the user needs it."""

    def __init__(self, expected, got):
        super().__init__(f"expected {expected}, got {got}")
        self.expected, self.got = str(expected), str(got)


class Missing(Exception):
    """This host lacks what a step needs."""


def expect(got, expected, what=""):
    """Fails unless both are equal."""
    if got != expected:
        raise Wrong(f"{what}{': ' if what else ''}{expected!r}", repr(got))


def is_so(holds, expected, got):
    """Fails unless something holds."""
    if not holds:
        raise Wrong(expected, got)


def indented(text):
    return text.strip().replace("\n", "\n            ")


class Script:
    def __init__(self, letter, who):
        self.letter, self.who, self.steps = letter, who, []

    def step(self, words):
        """Takes a function of the user's place as the next step."""

        def add(act):
            self.steps.append((words, act))
            return act

        return add

    def play(self, place):
        """Takes every step, also after one that failed. Returns the names of those that failed."""
        failed = []
        for number, (words, act) in enumerate(self.steps, 1):
            name = f"{self.letter}{number:02} {words}"
            begin = time.monotonic()
            try:
                act(place)
            except Missing as reason:
                print(f"skip {name}: {reason}", flush=True)
                continue
            except Wrong as wrong:
                lines = ("expected", wrong.expected), ("got", wrong.got)
            # A step that stumbles over an answer of another form than expected has failed, too.
            except Exception as error:
                lines = ("expected", "an answer that can be read"), ("got", f"{type(error).__name__}: {error}")
            else:
                print(f"pass {name} ({time.monotonic() - begin:.1f} s)", flush=True)
                continue
            failed.append(name)
            print(f"FAIL {name}")
            for title, text in lines:
                print(f"  {title + ':':10}{indented(text)}", flush=True)
        return failed
