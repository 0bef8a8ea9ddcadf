"""Sandboxes for the tests, and the record of which test covers which method."""

import json
import os
import pathlib
import sys

import pytest
from _pytest.runner import runtestprotocol
from e2b import Sandbox
from e2b_code_interpreter import Sandbox as Interpreter

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

import case_log  # noqa: E402
import tiers  # noqa: E402


def first_column(name):
    lines = (HERE.parent / name).read_text().splitlines()
    return {line.split("\t")[0] for line in lines if line and not line.startswith("#")}


@pytest.fixture(scope="module")
def sandbox():
    """One sandbox for all tests of a file; each works in names of its own."""
    sandbox = Sandbox.create(timeout=600)
    yield sandbox
    sandbox.kill()


@pytest.fixture
def fresh():
    """Makes sandboxes that a test may pause, kill or fill, and ends them after it."""
    made = []

    def create(*args, **kwargs):
        kwargs.setdefault("timeout", 300)
        sandbox = Sandbox.create(*args, **kwargs)
        made.append(sandbox)
        return sandbox

    yield create
    for sandbox in made:
        sandbox.kill()


@pytest.fixture(scope="module")
def interpreter():
    sandbox = Interpreter.create(timeout=600)
    yield sandbox
    sandbox.kill()


@pytest.fixture
def place(sandbox, request):
    """A directory of the shared sandbox that only this test uses."""
    path = f"/home/user/{request.node.name}"
    sandbox.files.make_dir(path)
    return path


# A name that is not in the tables would silently cover nothing.
def pytest_collection_modifyitems(items):
    known = {"covers": first_column("methods.tsv"), "refuses": first_column("refused.tsv")}
    for item in items:
        for kind, names in known.items():
            for mark in item.iter_markers(kind):
                unknown = set(mark.args) - names
                if unknown:
                    raise pytest.UsageError(f"{item.nodeid}: unknown names {sorted(unknown)}")
    excused = tiers.exceptions(os.environ.get("SDK_TIER"))
    for item in items:
        if reason := excused.get(item.nodeid.rpartition("/")[2]):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def pytest_runtest_protocol(item, nextitem):
    """Runs a test, again if it failed while the host stole the CPU; writes the case log."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    case = item.nodeid.rpartition("/")[2]
    for number in range(1, case_log.ATTEMPTS + 1):
        attempt = case_log.Attempt()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        failed = next((report for report in reports if report.failed), None)
        if not failed or not case_log.is_to_repeat("sdk/python", case, attempt, number, last_line(failed)):
            break
        # Fixtures of the test itself are made anew.
        item._initrequest()
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    skipped = all(report.skipped for report in reports if report.when == "call")
    outcome = "failed" if failed else "skipped" if skipped else "passed"
    case_log.write("sdk/python", case, attempt.seconds(), outcome)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def last_line(report):
    return report.longreprtext.strip().rpartition("\n")[2]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if report.when == "call" or report.outcome != "passed":
        item.config.stash.setdefault(OUTCOMES, {})[item.nodeid] = {
            "outcome": report.outcome,
            **{kind: [name for mark in item.iter_markers(kind) for name in mark.args] for kind in ("covers", "refuses")},
        }


OUTCOMES = pytest.StashKey()


def pytest_sessionfinish(session):
    if path := os.environ.get("SDK_OUTCOMES"):
        outcomes = session.config.stash.get(OUTCOMES, {})
        pathlib.Path(path).write_text(json.dumps(outcomes, indent=1))
