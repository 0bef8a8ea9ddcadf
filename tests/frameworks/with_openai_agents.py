"""OpenAI's Agents SDK, with its E2B sandboxes: agents, a manifest, and sessions. Its workspace is `/workspace`."""

import io
from pathlib import Path

from agents import RunConfig, Runner, set_tracing_disabled
from agents.extensions.sandbox.e2b.sandbox import E2BSandboxClient, E2BSandboxClientOptions, E2BSandboxType
from agents.run_config import SandboxRunConfig
from agents.sandbox.entries import File
from agents.sandbox.manifest import Manifest
from agents.sandbox.sandbox_agent import SandboxAgent
from checks import check, main, same

set_tracing_disabled(True)


def options(**more):
    return E2BSandboxClientOptions(sandbox_type=E2BSandboxType.E2B, **more)


async def answer(task, options, **more):
    """What the scripted model says at the end: the result of its last call."""
    agent = SandboxAgent(name="worker", model="scripted", instructions="Do the task.")
    sandbox = SandboxRunConfig(client=E2BSandboxClient(), options=options, **more)
    return (await Runner.run(agent, task, run_config=RunConfig(sandbox=sandbox))).final_output


class Session:
    """One of the defaults, started, and ended with its sandbox."""

    def __init__(self, manifest=None, state=None, **more):
        self.manifest, self.state, self.more = manifest, state, more

    async def __aenter__(self):
        client = E2BSandboxClient()
        if self.state is None:
            self.session = await client.create(manifest=self.manifest, options=options(**self.more))
        else:
            self.session = await client.resume(self.state)
        await self.session.start()
        return self.session

    async def __aexit__(self, *_):
        await self.session.shutdown()


async def output(session, *command, **more):
    done = await session.exec(*command, **more)
    return done.exit_code, done.stdout.decode()


@check
async def an_agent_works_in_the_default_workspace():
    for kind in E2BSandboxType:
        said = await answer("Compute.", E2BSandboxClientOptions(sandbox_type=kind))
        assert said.endswith("/workspace\nuser\n42\n"), said


@check
async def an_agent_edits_files_of_its_workspace():
    said = await answer("Please edit it.", options(), manifest=Manifest(entries={"notes.txt": File(content=b"old\n")}))
    assert said.endswith("new\nuser\n"), said


@check
async def a_manifest_is_laid_out_in_the_default_workspace():
    entries = {"hello.txt": File(content=b"hello\n"), "deep/er/data.csv": File(content=b"a,b\n1,2\n")}
    async with Session(Manifest(entries=entries)) as session:
        shown = await output(session, "cat hello.txt deep/er/data.csv; stat -c %U . hello.txt deep/er")
        same(shown, (0, "hello\na,b\n1,2\nuser\nuser\nuser\n"))
        # It changes modes of what it wrote by the files API, as the user.
        same(await output(session, "chmod 600 hello.txt && echo more >>hello.txt && cat hello.txt"), (0, "hello\nmore\n"))


@check
async def a_session_reads_what_it_writes():
    async with Session() as session:
        data = bytes(range(256)) * 1000
        await session.mkdir(Path("sub/dir"), parents=True)
        await session.write(Path("sub/dir/blob"), io.BytesIO(data))
        same((await session.read(Path("sub/dir/blob"))).read(), data)
        same([Path(entry.path).name for entry in await session.ls(Path("sub/dir"))], ["blob"])
        same(await output(session, "wc -c <sub/dir/blob"), (0, "256000\n"))
        await session.rm(Path("sub"), recursive=True)
        same(await output(session, "ls"), (0, ""))


@check
async def a_session_tells_how_a_command_ended():
    async with Session(envs={"FLAVOUR": "plum"}) as session:
        same(await output(session, "echo $FLAVOUR; exit 3"), (3, "plum\n"))
        done = await session.exec("echo why >&2; false")
        same((done.exit_code, done.stderr), (1, b"why\n"))


@check
async def a_terminal_is_one():
    async with Session() as session:
        update = await session.pty_exec_start("tty && stty size && pwd", tty=True, yield_time_s=1)
        shown = update.output.decode()
        update = await session.pty_write_stdin(session_id=update.process_id, chars="exit 3\n", yield_time_s=10)
        shown += update.output.decode()
        assert "/dev/pts/" in shown and "24 80" in shown and "/workspace" in shown, shown
        same(update.exit_code, 3)


@check
async def a_workspace_is_carried_to_another_sandbox():
    for persistence in ("tar", "snapshot"):
        async with Session(workspace_persistence=persistence) as session:
            await session.exec("mkdir kept && echo kept >kept/file && chmod 640 kept/file")
            packed = await session.persist_workspace()
        async with Session(workspace_persistence=persistence) as session:
            await session.hydrate_workspace(packed)
            same(await output(session, "cat kept/file; stat -c '%a %U' kept/file"), (0, "kept\n640 user\n"))


@check
async def a_session_is_resumed_by_its_state():
    client = E2BSandboxClient()
    session = await client.create(options=options(pause_on_exit=True))
    await session.start()
    await session.exec("echo before >state")
    await session.shutdown()
    state = client.deserialize_session_state(session.state.model_dump(mode="json"))
    state.pause_on_exit = False
    async with Session(state=state) as again:
        same(again.state.sandbox_id, session.state.sandbox_id)
        same(await output(again, "cat state"), (0, "before\n"))


main()
