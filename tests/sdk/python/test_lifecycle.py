"""Sandboxes from birth to death: making, finding, pausing, timing out, ending."""

import time
import uuid
from datetime import datetime, timedelta, timezone

import pytest
from e2b import Sandbox, SandboxQuery, SandboxState
from e2b.exceptions import (
    AuthenticationException,
    NotFoundException,
    SandboxException,
    SandboxNotFoundException,
    SandboxNotRunningException,
)

covers = pytest.mark.covers


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


@covers("Sandbox.create", "Sandbox.get_info", "Sandbox.is_running", "Sandbox.kill")
def test_a_sandbox_lives_from_create_to_kill(fresh):
    before = datetime.now(timezone.utc)
    sandbox = fresh(timeout=90, metadata={"purpose": "life"})
    making = datetime.now(timezone.utc) - before
    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id and info.sandbox_id.isalnum()
    assert info.metadata == {"purpose": "life"} and info.state is SandboxState.RUNNING
    assert info.cpu_count >= 1 and info.memory_mb >= 64
    second = timedelta(seconds=1)
    assert -second < info.started_at - before < making + second
    assert 89 * second < info.end_at - info.started_at < 91 * second + making
    assert sandbox.is_running() is True
    assert sandbox.kill() is True
    assert sandbox.is_running() is False
    assert sandbox.kill() is False
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()


@covers("Sandbox.create")
def test_a_template_that_does_not_exist_is_named():
    with pytest.raises(SandboxException, match="no-such-template") as failure:
        Sandbox.create("no-such-template")
    assert failure.value.status_code == 404


@covers("Sandbox.create")
def test_a_wrong_key_opens_nothing():
    with pytest.raises(AuthenticationException):
        Sandbox.create(api_key="e2b_" + "0" * 40)


@covers("Sandbox.create")
def test_one_idempotency_key_makes_one_sandbox(fresh):
    key = str(uuid.uuid4())
    first, second = fresh(idempotency_key=key), fresh(idempotency_key=key)
    assert first.sandbox_id == second.sandbox_id


@covers("Sandbox.kill")
def test_killing_a_stranger_is_false():
    assert Sandbox.kill("nosuchsandbox") is False


@covers("Sandbox.kill", "Commands.run")
def test_a_kill_ends_what_runs_and_the_sdk_says_so(fresh):
    sandbox = fresh()
    handle = sandbox.commands.run("sleep 600", background=True)
    sandbox.kill()
    with pytest.raises(SandboxNotRunningException):
        handle.wait()
    with pytest.raises(SandboxNotRunningException):
        sandbox.commands.run("true")


@covers("Sandbox.connect")
def test_another_client_meets_the_same_sandbox(fresh):
    sandbox = fresh()
    sandbox.files.write("note", "left behind")
    other = Sandbox.connect(sandbox.sandbox_id)
    assert other.sandbox_id == sandbox.sandbox_id
    assert other.files.read("note") == "left behind"


@covers("Sandbox.connect")
def test_connecting_only_ever_extends_the_deadline(fresh):
    sandbox = fresh(timeout=300)
    end = sandbox.get_info().end_at
    sandbox.connect(timeout=5)
    assert sandbox.get_info().end_at >= end
    sandbox.connect(timeout=900)
    assert sandbox.get_info().end_at > end + timedelta(seconds=400)


@covers("Sandbox.connect")
def test_connecting_to_nothing_is_not_found():
    with pytest.raises(NotFoundException):
        Sandbox.connect("nosuchsandbox")


@covers("Sandbox.set_timeout")
def test_a_timeout_can_grow_and_shrink_and_then_ends_the_sandbox(fresh):
    sandbox = fresh()
    before = datetime.now(timezone.utc)
    sandbox.set_timeout(300)
    after = datetime.now(timezone.utc)
    end = sandbox.get_info().end_at
    assert before + timedelta(seconds=299) < end < after + timedelta(seconds=301)
    sandbox.set_timeout(1)
    until(lambda: not sandbox.is_running())
    with pytest.raises(SandboxNotFoundException):
        sandbox.set_timeout(60)


@covers("Sandbox.pause", "Sandbox.connect")
def test_a_paused_sandbox_comes_back_with_its_files(fresh):
    sandbox = fresh(metadata={"nap": "yes"})
    sandbox.files.write("note", "kept")
    assert sandbox.pause() is True
    assert sandbox.get_info().state is SandboxState.PAUSED
    assert sandbox.is_running() is False
    assert sandbox.pause() is False
    again = Sandbox.connect(sandbox.sandbox_id, timeout=300)
    assert again.get_info().state is SandboxState.RUNNING
    assert again.files.read("note") == "kept"
    assert again.get_info().metadata == {"nap": "yes"}


@covers("Sandbox.pause")
def test_a_pause_without_memory_keeps_files_and_ends_processes(fresh):
    sandbox = fresh()
    sandbox.files.write("note", "kept")
    sandbox.commands.run("touch -d @86400 note && ln -s note link && touch -h -d @86400 link")
    sandbox.commands.run("sleep 600", background=True, timeout=0)
    assert sandbox.pause(mode="filesystem") is True
    sandbox.connect()
    assert sandbox.files.read("note") == "kept"
    assert sandbox.commands.run("stat -c %Y note link").stdout == "86400\n86400\n"
    assert not any("sleep 600" in " ".join(process.args) for process in sandbox.commands.list())


@covers("Sandbox.beta_pause")
def test_the_old_name_of_pause_still_pauses(fresh):
    sandbox = fresh()
    assert sandbox.beta_pause() is True
    assert sandbox.get_info().state is SandboxState.PAUSED


@covers("Sandbox.pause")
def test_pausing_a_stranger_is_not_found():
    with pytest.raises(SandboxNotFoundException):
        Sandbox.pause("nosuchsandbox")


@covers("Sandbox.create", "Sandbox.get_info")
def test_a_sandbox_can_be_paused_by_its_timeout(fresh):
    sandbox = fresh(timeout=1, lifecycle={"on_timeout": "pause"})
    assert sandbox.get_info().lifecycle["on_timeout"] == "pause"
    until(lambda: sandbox.get_info().state is SandboxState.PAUSED)


@covers("Sandbox.list", "SandboxPaginator.next_items")
def test_sandboxes_are_found_by_metadata_state_and_template(fresh):
    mark = {"run id": f"{uuid.uuid4()} &=ü"}
    start = datetime.now(timezone.utc)
    first = fresh(metadata=mark)
    second = fresh(metadata={**mark, "n": "2"})
    second.pause()

    def found(**query):
        paginator = Sandbox.list(query=SandboxQuery(metadata=mark, **query))
        return [info.sandbox_id for info in paginator.next_items()]

    both = [second.sandbox_id, first.sandbox_id]
    assert found() == both
    assert found(state=[SandboxState.RUNNING]) == [first.sandbox_id]
    assert found(state=[SandboxState.PAUSED]) == [second.sandbox_id]
    assert sorted(found(state=[SandboxState.PAUSED, SandboxState.RUNNING])) == sorted(both)
    assert found(template=first.get_info().template_id) == both
    assert found(template="nosuchtemplate") == []
    assert found(started_after=start - timedelta(minutes=1)) == both
    assert found(started_after=start + timedelta(minutes=1)) == []


@covers("SandboxPaginator.next_items")
def test_a_long_list_comes_in_pages(fresh):
    mark = {"page": str(uuid.uuid4())}
    made = [fresh(metadata=mark).sandbox_id for _ in range(3)]
    pages = Sandbox.list(query=SandboxQuery(metadata=mark), limit=2, order="asc")
    assert [info.sandbox_id for info in pages.next_items()] == made[:2]
    assert pages.has_next and pages.next_token
    assert [info.sandbox_id for info in pages.next_items()] == made[2:]
    assert not pages.has_next


@covers("Sandbox.get_metrics")
def test_metrics_tell_what_a_sandbox_uses(fresh):
    sandbox = fresh()
    sandbox.commands.run("head -c 20000000 /dev/urandom > /home/user/ballast")
    until(lambda: sandbox.get_metrics())
    until(lambda: sandbox.get_metrics()[-1].disk_used >= 20_000_000)
    metric = sandbox.get_metrics()[-1]
    assert metric.cpu_count >= 1 and metric.cpu_used_pct >= 0
    assert 0 < metric.mem_used <= metric.mem_total and metric.disk_used <= metric.disk_total
    assert abs(metric.timestamp - datetime.now(timezone.utc)) < timedelta(seconds=30)
    past = datetime.now(timezone.utc) - timedelta(days=1)
    assert sandbox.get_metrics(start=past - timedelta(hours=1), end=past) == []
