"""The case log and the retry rule, for suites written in Python.

A suite appends a line of JSON for each case to the file that BELLJAR_CASE_LOG names;
the gate reads it. A case that failed is run again only if the host stole more than a
fifth of the CPU meanwhile: then its failure may say nothing. The suites in Rust follow
the same rule (tests/testkit).
"""

import json
import os
import time

# Above this share of stolen CPU time, a failure may be the host's.
TOO_MUCH = 0.2
ATTEMPTS = 3
# Of so few clock ticks, no share is taken.
NOISE = 20


def _ticks():
    """Clock ticks of all cores: busy, and stolen; see proc(5)."""
    with open("/proc/stat") as stat:
        fields = [int(field) for field in stat.readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, stolen = fields
    return user + nice + system + irq + softirq, stolen


class Attempt:
    """One attempt at a case: its seconds, and the share of the CPU that was stolen."""

    def __init__(self):
        self.begin, self.ticks = time.monotonic(), _ticks()

    def seconds(self):
        return time.monotonic() - self.begin

    def steal(self):
        busy, stolen = (now - before for now, before in zip(_ticks(), self.ticks))
        return stolen / (busy + stolen) if busy + stolen >= NOISE else 0.0


def write(suite, case, seconds, outcome, **more):
    """Appends a line: outcome is passed, failed, skipped or retried."""
    if path := os.environ.get("BELLJAR_CASE_LOG"):
        line = {"suite": suite, "case": case, "seconds": round(seconds, 3), "outcome": outcome, **more}
        with open(path, "a") as log:
            log.write(json.dumps(line) + "\n")


def is_to_repeat(suite, case, attempt, number, why):
    """Whether the failed attempt `number` (from 1) is thrown away; says so, and writes it down."""
    steal = attempt.steal()
    if steal <= TOO_MUCH or number >= ATTEMPTS:
        return False
    first = str(why).strip().partition("\n")[0]
    print(f"again: {suite} {case}: the host stole {steal:.0%} of the CPU: {first}", flush=True)
    write(suite, case, attempt.seconds(), "retried", steal=round(steal, 3), why=first)
    return True


def run(suite, case, act, failures=(AssertionError,)):
    """Calls `act` until it passes or its failure counts. Returns its result; raises its last failure."""
    for number in range(1, ATTEMPTS + 1):
        attempt = Attempt()
        try:
            result = act()
        except failures as failure:
            if is_to_repeat(suite, case, attempt, number, failure):
                continue
            write(suite, case, attempt.seconds(), "failed")
            raise
        write(suite, case, attempt.seconds(), "passed")
        return result
    raise AssertionError("not reached")
