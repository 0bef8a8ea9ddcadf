"""Watching directories."""

import time

import pytest
from e2b import FilesystemEventType as Event
from e2b.exceptions import FileNotFoundException, InvalidArgumentException, SandboxException

covers = pytest.mark.covers


def collect(handle, wanted, seconds=60):
    """Events until the wanted (name, kind) pairs have all come."""
    seen, deadline = [], time.monotonic() + seconds
    while not wanted <= {(event.name, event.type) for event in seen}:
        assert time.monotonic() < deadline, f"only saw {seen}"
        seen += handle.get_new_events()
        time.sleep(0.05)
    return seen


@covers("Filesystem.watch_dir", "WatchHandle.get_new_events", "WatchHandle.stop")
def test_every_kind_of_change_is_seen_once_and_in_order(sandbox, place):
    sandbox.files.write(f"{place}/there", "x")
    handle = sandbox.files.watch_dir(place)
    sandbox.files.write(f"{place}/new", "x")
    sandbox.commands.run(f"cd {place}; echo y >> there; chmod 600 there; mv there gone; rm new")
    seen = collect(handle, {
        ("new", Event.CREATE), ("new", Event.WRITE), ("there", Event.WRITE), ("there", Event.CHMOD),
        ("there", Event.RENAME), ("gone", Event.CREATE), ("new", Event.REMOVE),
    })  # fmt: skip
    order = [(event.name, event.type) for event in seen]
    assert order.index(("new", Event.CREATE)) < order.index(("there", Event.CHMOD)) < order.index(("new", Event.REMOVE))
    assert handle.get_new_events() == []
    handle.stop()
    with pytest.raises(SandboxException):
        handle.get_new_events()


@covers("Filesystem.watch_dir")
def test_only_a_recursive_watch_sees_below(sandbox, place):
    sandbox.files.make_dir(f"{place}/sub")
    flat, deep = sandbox.files.watch_dir(place), sandbox.files.watch_dir(place, recursive=True)
    sandbox.files.write(f"{place}/sub/file", "x")
    sandbox.files.make_dir(f"{place}/later")
    collect(deep, {("sub/file", Event.CREATE), ("later", Event.CREATE)})
    sandbox.files.write(f"{place}/later/inner", "x")
    collect(deep, {("later/inner", Event.WRITE)})
    assert not any("/" in event.name for event in collect(flat, {("later", Event.CREATE)}))
    flat.stop()
    deep.stop()


@covers("Filesystem.watch_dir")
def test_events_can_bring_the_entry_along(sandbox, place):
    handle = sandbox.files.watch_dir(place, include_entry=True)
    sandbox.files.write(f"{place}/file", "12345")
    seen = collect(handle, {("file", Event.CREATE), ("file", Event.WRITE)})
    entry = [event.entry for event in seen if event.type is Event.WRITE][-1]
    assert (entry.path, entry.size) == (f"{place}/file", 5)
    handle.stop()


@covers("Filesystem.watch_dir")
def test_only_directories_that_exist_can_be_watched(sandbox, place):
    sandbox.files.write(f"{place}/file", "x")
    with pytest.raises(FileNotFoundException):
        sandbox.files.watch_dir(f"{place}/missing")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.watch_dir(f"{place}/file")
