"""Prime Intellect's verifiers with its E2B runtime: everything is done as root, in `/app`.

Its default image cannot be pulled here, so E2B's own is named; all else is the default.
"""

import asyncio

from checks import check, main, same
from verifiers.v1.runtimes import E2BConfig, E2BRuntime

IMAGE = "e2bdev/base"


class Started:
    def __init__(self, **config):
        self.runtime = E2BRuntime(E2BConfig(image=IMAGE, **config))

    async def __aenter__(self):
        await self.runtime.start()
        return self.runtime

    async def __aexit__(self, *_):
        await self.runtime.stop()


def shell(script):
    return ["sh", "-c", script]


async def output(runtime, script, **env):
    done = await runtime.run(shell(script), env)
    return done.exit_code, done.stdout, done.stderr


@check
async def a_command_runs_as_root_in_app():
    async with Started() as runtime:
        same(await output(runtime, "pwd; id -un; echo $FLAVOUR; echo why >&2; exit 3", FLAVOUR="plum"), (3, "/app\nroot\nplum\n", "why\n"))
        same(await output(runtime, "stat -c '%U %a' /app"), (0, "root 755\n", ""))


@check
async def files_are_written_and_read_below_app():
    async with Started() as runtime:
        data = bytes(range(256)) * 4096
        await runtime.write("sub/dir/blob", data)
        await runtime.write("/opt/other/file", b"text")
        same(await runtime.read("sub/dir/blob"), data)
        same(await output(runtime, "stat -c '%U %s' sub/dir/blob /opt/other/file"), (0, "root 1048576\nroot 4\n", ""))


@check
async def a_program_runs_to_its_end():
    async with Started() as runtime:
        done = await runtime.run_program(shell("echo out; echo err >&2; exit 7"), {})
        same((done.exit_code, done.stdout, done.stderr), (7, "out\n", "err\n"))


@check
async def a_live_process_takes_and_gives_exact_bytes():
    async with Started() as runtime:
        process = await runtime.open_process(["head", "-c", "512"], {})
        data = bytes(range(256)) * 2
        await process.write(data)
        same(b"".join([piece async for piece in process.stdout]), data)
        same(await process.wait(), 0)
        process = await runtime.open_process(["sleep", "600"], {})
        await process.terminate()
        assert await asyncio.wait_for(process.wait(), 60) != 0


@check
async def a_background_process_goes_on():
    async with Started() as runtime:
        await runtime.run_background(shell("echo begun; until [ -e go ]; do sleep 0.05; done; echo over"), {}, "/tmp/log")
        await runtime.write("go", b"")
        same(await output(runtime, "until grep -q over /tmp/log; do sleep 0.05; done; cat /tmp/log"), (0, "begun\nover\n", ""))


@check
async def setup_installs_packages_and_adds_users():
    script = """
        set -e
        pip install --quiet inflection 2>&1
        useradd --create-home agent
        chown -R agent:agent /app
        su agent -c 'cd /app && echo mine >file'
        stat -c %U /app /app/file
        python3 -c 'import inflection; print(inflection.camelize("done_so"))'
    """
    async with Started() as runtime:
        status, said, errors = await output(runtime, script)
        same((status, said.splitlines()[-3:]), (0, ["agent", "agent", "DoneSo"]))


@check
async def execution_without_a_network_is_prepared():
    reach = "pip download --quiet --no-cache-dir --no-deps --retries 0 --dest /tmp/$1 inflection"
    async with Started(allow=[]) as runtime:
        status, _, errors = await output(runtime, reach)
        same((status, errors), (0, ""))
        await runtime.prepare_execution([])
        status, _, errors = await output(runtime, reach)
        assert status != 0 and "No matching distribution" in errors, errors


main()
