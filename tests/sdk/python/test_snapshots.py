"""Snapshots and forks: copies that start equal and then go their own ways."""

import uuid

import pytest
from e2b import Sandbox
from e2b.exceptions import SandboxException, SandboxNotFoundException
from e2b_code_interpreter import Sandbox as Interpreter

covers = pytest.mark.covers


def everything(paginator):
    items = []
    while paginator.has_next:
        items += paginator.next_items()
    return items


@covers("Sandbox.create_snapshot", "Sandbox.delete_snapshot", "Sandbox.create")
def test_a_snapshot_starts_sandboxes_with_the_files_of_its_moment(fresh):
    source = fresh()
    source.files.write("/home/user/note", "then")
    snapshot = source.create_snapshot()
    source.files.write("/home/user/note", "now")
    assert source.is_running()
    first, second = fresh(snapshot.snapshot_id), fresh(snapshot.snapshot_id)
    first.files.write("/home/user/own", "first")
    assert [box.files.read("/home/user/note") for box in (source, first, second)] == ["now", "then", "then"]
    assert not second.files.exists("/home/user/own")
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False
    with pytest.raises(SandboxException):
        Sandbox.create(snapshot.snapshot_id)


@covers("Sandbox.create_snapshot", "Sandbox.list_snapshots", "SnapshotPaginator.next_items")
def test_snapshots_are_listed_by_sandbox_and_by_name_in_pages(fresh):
    source, name = fresh(), f"kept-{uuid.uuid4().hex[:8]}"
    made = [source.create_snapshot(), source.create_snapshot(name=name), source.create_snapshot(mode="filesystem")]
    ids = {snapshot.snapshot_id for snapshot in made}
    assert len(ids) == 3
    assert {snapshot.snapshot_id for snapshot in everything(source.list_snapshots())} == ids
    assert ids <= {snapshot.snapshot_id for snapshot in everything(Sandbox.list_snapshots())}
    [named] = everything(Sandbox.list_snapshots(name=name))
    assert named.snapshot_id == made[1].snapshot_id and any(name in entry for entry in named.names)
    pages = source.list_snapshots(limit=2)
    assert [len(pages.next_items()), pages.has_next, len(pages.next_items()), pages.has_next] == [2, True, 1, False]
    assert all(Sandbox.delete_snapshot(snapshot.snapshot_id) for snapshot in made)
    assert everything(source.list_snapshots()) == []


@covers("Sandbox.create_snapshot")
def test_a_stranger_has_no_snapshots():
    with pytest.raises(SandboxNotFoundException):
        Sandbox.create_snapshot("nosuchsandbox")


@covers("Sandbox.fork")
def test_forks_carry_files_and_go_their_own_ways(fresh):
    source = fresh()
    source.files.write("/home/user/note", "shared")
    forks = source.fork(count=2, timeout=60)
    try:
        assert len({box.sandbox_id for box in (source, *forks)}) == 3
        forks[0].files.write("/home/user/note", "mine")
        assert [box.files.read("/home/user/note") for box in (source, *forks)] == ["shared", "mine", "shared"]
    finally:
        for fork in forks:
            fork.kill()


@covers("Sandbox.fork")
def test_forks_carry_variables_also_of_a_template_that_was_never_used():
    source = Interpreter.create("python-data", timeout=300)
    try:
        source.run_code("kept = 41")
        [fork] = source.fork(count=1, timeout=60)
        try:
            assert Interpreter.connect(fork.sandbox_id).run_code("kept + 1").text == "42"
        finally:
            fork.kill()
    finally:
        source.kill()


@covers("Sandbox.fork")
def test_a_stranger_cannot_be_forked():
    with pytest.raises(SandboxNotFoundException):
        Sandbox.fork("nosuchsandbox")
