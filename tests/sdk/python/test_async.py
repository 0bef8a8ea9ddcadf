"""The async classes: what they do differently on the wire, and that a sandbox takes many calls at once."""

import asyncio

import pytest
import pytest_asyncio
from e2b import AsyncSandbox, AsyncSecret, AsyncVolume, FilesystemEventType, PtySize
from e2b.exceptions import FileNotFoundException, SandboxNotRunningException
from e2b_code_interpreter import AsyncSandbox as AsyncInterpreter

pytestmark = pytest.mark.asyncio(loop_scope="module")
covers = pytest.mark.covers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box():
    box = await AsyncInterpreter.create(timeout=600)
    yield box
    await box.kill()


@covers("Commands.run")
async def test_twenty_commands_run_at_once(box):
    results = await asyncio.gather(*(box.commands.run(f"sleep 0.3; echo {n}") for n in range(20)))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(20)]


@covers("Commands.run", "CommandHandle.wait", "CommandHandle.send_stdin", "CommandHandle.close_stdin")
async def test_callbacks_and_input(box):
    seen = []
    handle = await box.commands.run("cat", background=True, stdin=True, on_stdout=seen.append)
    await handle.send_stdin("over ")
    await handle.send_stdin("there")
    await handle.close_stdin()
    assert (await handle.wait()).stdout == "over there" == "".join(seen)


@covers("Commands.stream_input")
async def test_an_input_handle_streams(box):
    handle = await box.commands.run("head -n 2", background=True, stdin=True)
    async with box.commands.stream_input(handle.pid) as stream:
        await stream.send("one\n")
        await asyncio.sleep(0.3)
        await stream.send("two\n")
    assert (await handle.wait()).stdout == "one\ntwo\n"


@covers("Filesystem.write", "Filesystem.read", "Filesystem.list", "Filesystem.remove", "FileStreamReader.close")
async def test_files(box):
    await asyncio.gather(*(box.files.write(f"/home/user/async/{n}", f"file {n}") for n in range(20)))
    entries = await box.files.list("/home/user/async")
    assert len(entries) == 20
    assert await box.files.read("/home/user/async/7") == "file 7"
    reader = await box.files.read("/home/user/async/8", format="stream")
    assert b"".join([chunk async for chunk in reader]) == b"file 8"
    await box.files.remove("/home/user/async")
    with pytest.raises(FileNotFoundException):
        await box.files.list("/home/user/async")


@covers("Filesystem.watch_dir", "WatchHandle.stop")
async def test_a_watch_is_a_stream(box):
    await box.files.make_dir("/home/user/watched/sub")
    seen, written = [], asyncio.Event()

    async def on_event(event):
        seen.append((event.name, event.type))
        if seen[-1] == ("sub/file", FilesystemEventType.WRITE):
            written.set()

    handle = await box.files.watch_dir("/home/user/watched", on_event, recursive=True)
    await box.files.write("/home/user/watched/sub/file", "x")
    await asyncio.wait_for(written.wait(), 60)
    await handle.stop()
    count = len(seen)
    await box.files.write("/home/user/watched/after", "x")
    await asyncio.sleep(0.5)
    assert len(seen) == count


@covers("Pty.create", "Pty.send_stdin", "Pty.kill")
async def test_a_terminal(box):
    shown, done = bytearray(), asyncio.Event()

    async def on_data(data):
        shown.extend(data)
        if b"42-" in shown:
            done.set()

    terminal = await box.pty.create(PtySize(rows=24, cols=80), on_data=on_data)
    await box.pty.send_stdin(terminal.pid, b"echo $((6 * 7))-\n")
    await asyncio.wait_for(done.wait(), 60)
    assert await box.pty.kill(terminal.pid) is True


@covers("Interpreter.run_code", "Interpreter.create_code_context")
async def test_contexts_run_beside_each_other(box):
    contexts = await asyncio.gather(*(box.create_code_context() for _ in range(3)))
    code = "import time; time.sleep(0.5); n"
    await asyncio.gather(*(box.run_code(f"n = {n}", context=context) for n, context in enumerate(contexts)))
    results = await asyncio.gather(*(box.run_code(code, context=context) for context in contexts))
    assert [result.text for result in results] == ["0", "1", "2"]
    await asyncio.gather(*(box.remove_code_context(context) for context in contexts))


@covers("Sandbox.create", "Sandbox.connect", "Sandbox.kill", "Sandbox.list", "SandboxPaginator.next_items")
async def test_sandboxes_come_and_go_together():
    boxes = await asyncio.gather(*(AsyncSandbox.create(timeout=300, metadata={"async": "yes"}) for _ in range(4)))
    assert len({box.sandbox_id for box in boxes}) == 4
    listed = {info.sandbox_id for info in await AsyncSandbox.list().next_items()}
    assert {box.sandbox_id for box in boxes} <= listed
    again = await AsyncSandbox.connect(boxes[0].sandbox_id)
    assert (await again.commands.run("echo met")).stdout == "met\n"
    assert await asyncio.gather(*(box.kill() for box in boxes)) == [True] * 4
    with pytest.raises(SandboxNotRunningException):
        await again.commands.run("true")


@covers("Volume.create", "Volume.write_file", "Volume.read_file", "Volume.destroy", "Secret.create", "Secret.destroy")
async def test_volumes_and_secrets():
    volume = await AsyncVolume.create("sdk-async-volume")
    await volume.write_file("/x", b"y" * 100_000)
    assert await volume.read_file("/x", format="bytes") == b"y" * 100_000
    assert await AsyncVolume.destroy(volume.volume_id) is True
    secret = await AsyncSecret.create("sdk-async-secret", "value")
    assert await AsyncSecret.destroy(secret.secret_id) is True
