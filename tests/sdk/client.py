"""One client after another, or many at once, with E2B's own asynchronous SDK; run with the venv's interpreter.

Each makes a sandbox and uses it: a cell, files, a command, the end. What
happens goes to standard output, one JSON object a line, at the moment that it
happens: whoever reads may have ended the server meanwhile and wants to know
what its clients had been told by then.
"""

import argparse
import asyncio
import json
import os
import sys
import time

from e2b_code_interpreter import AsyncSandbox

# Two cores serve hundreds of clients: it takes as long as it takes, and an answer must come.
PATIENCE = 180


def tell(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Wrong(Exception):
    pass


def expect(what, found, wanted):
    if found != wanted:
        raise Wrong(f"{what}: {found!r} instead of {wanted!r}")


class Client:
    def __init__(self, name):
        self.name = name
        self.step = None

    async def timed(self, step, work):
        self.step = step
        start = time.monotonic()
        result = await work
        tell(step=step, seconds=time.monotonic() - start)
        return result

    async def create(self):
        making = AsyncSandbox.create(timeout=600, metadata={"client": self.name}, request_timeout=PATIENCE)
        self.sandbox = await self.timed("create", making)
        tell(told=self.sandbox.sandbox_id)

    async def use(self):
        sandbox, note = self.sandbox, f"/home/user/{self.name}.txt"
        run = sandbox.run_code(f"name = '{self.name}'\n[name, name]", timeout=PATIENCE, request_timeout=PATIENCE)
        expect("run_code", (await self.timed("run_code", run)).text, repr([self.name] * 2))
        text = f"from {self.name}\n" * 64
        await self.timed("write", sandbox.files.write(note, text, request_timeout=PATIENCE))
        read = await self.timed("read", sandbox.files.read(note, request_timeout=PATIENCE))
        expect("files.read", read, text)
        entries = await self.timed("list", sandbox.files.list("/home/user", request_timeout=PATIENCE))
        expect("files.list", [entry.name for entry in entries if entry.name.endswith(".txt")], [f"{self.name}.txt"])
        command = sandbox.commands.run(f"wc -c < {note}; cat /etc/hostname > /dev/null", timeout=PATIENCE, request_timeout=PATIENCE)
        expect("commands.run", int((await self.timed("command", command)).stdout), len(text))

    async def kill(self):
        killed = await self.timed("kill", self.sandbox.kill(request_timeout=PATIENCE))
        expect("kill", killed, True)
        tell(killed=self.sandbox.sandbox_id)

    async def live(self, all_there):
        self.sandbox = None
        try:
            await self.create()
        finally:
            # Also without one: nobody shall wait for it.
            await all_there()
        await self.use()
        await self.kill()


class Meeting:
    """Every client has its sandbox before the first is used, so that all are alive at once."""

    def __init__(self, count):
        self.missing, self.open = count, asyncio.Event()

    async def __call__(self):
        self.missing -= 1
        if self.missing == 0:
            tell(met=True)
            # Other processes have clients too; whoever reads says when all have met.
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
            self.open.set()
        await self.open.wait()


async def pass_by():
    pass


def note_of(identifier):
    return f"kept in {identifier}\n" * 1000


async def pause(count):
    """Makes sandboxes and pauses them with their files only."""

    async def one():
        sandbox = await AsyncSandbox.create(timeout=3600, request_timeout=PATIENCE)
        tell(told=sandbox.sandbox_id)
        await sandbox.files.write("/home/user/kept.txt", note_of(sandbox.sandbox_id), request_timeout=PATIENCE)
        await sandbox.commands.run("mkdir -p deep/er && ln -s ../kept.txt deep/er/link", request_timeout=PATIENCE)
        await sandbox.pause(mode="filesystem", request_timeout=PATIENCE)
        tell(paused=sandbox.sandbox_id)

    await asyncio.gather(*(one() for _ in range(count)))


async def resume(identifiers):
    """Resumes sandboxes, looks for their files, and kills them."""
    for identifier in identifiers:
        sandbox = await AsyncSandbox.connect(identifier, request_timeout=PATIENCE)
        expect("resumed", sandbox.sandbox_id, identifier)
        text = await sandbox.files.read("/home/user/kept.txt", request_timeout=PATIENCE)
        expect("kept.txt", text, note_of(identifier))
        link = await sandbox.commands.run("readlink deep/er/link; cat deep/er/../../kept.txt | wc -l", request_timeout=PATIENCE)
        expect("the link", link.stdout, "../kept.txt\n1000\n")
        await sandbox.kill(request_timeout=PATIENCE)
        tell(killed=identifier)


async def linger():
    """Requests that take their time; each says how it ended."""
    sandbox = await AsyncSandbox.create(timeout=600, request_timeout=PATIENCE)
    tell(told=sandbox.sandbox_id)
    # The interpreter is there: what follows begins at once.
    await sandbox.run_code("1", request_timeout=PATIENCE)

    async def one(name, work, result):
        try:
            expect(name, result(await work), "42")
            tell(finished=name)
        except Exception as error:
            tell(broken=name, error=f"{type(error).__name__}: {error}")

    begun = [asyncio.Event() for _ in range(3)]
    heard = [lambda _, event=event: event.set() for event in begun]
    code = "import sys, time; print('begun', file=sys.stderr, flush=True); time.sleep(2); 42"
    cell = sandbox.run_code(code, on_stderr=heard[0], request_timeout=PATIENCE)
    command = sandbox.commands.run("echo begun >&2; sleep 2; echo -n 42", on_stderr=heard[1], request_timeout=PATIENCE)
    endless = sandbox.commands.run("echo begun >&2; sleep 100; echo -n 42", on_stderr=heard[2], timeout=0, request_timeout=PATIENCE)
    work = asyncio.gather(
        one("cell", cell, lambda found: found.text),
        one("command", command, lambda found: found.stdout),
        one("endless", endless, lambda found: found.stdout),
    )
    for event in begun:
        await event.wait()
    tell(lingering=True)
    await work


async def clients(name, count, lives, meet):
    meetings = [Meeting(count) if meet else pass_by for _ in range(lives)]

    async def one(number):
        for life, meeting in enumerate(meetings):
            client = Client(f"c{name}n{number}l{life}")
            try:
                await client.live(meeting)
            except Exception as error:
                tell(error=f"{type(error).__name__}: {error}", step=client.step, client=client.name)

    await asyncio.gather(*(one(number) for number in range(count)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="0")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--lives", type=int, default=1, help="sandboxes of each client, one after another")
    parser.add_argument("--meet", action="store_true", help="use none before all are there; then wait for a line on stdin")
    parser.add_argument("--pause", action="store_true", help="only make and pause as many as there are clients")
    parser.add_argument("--resume", nargs="+", help="only resume these, look at them and kill them")
    parser.add_argument("--linger", action="store_true", help="only make requests that take seconds")
    options = parser.parse_args()
    if options.pause:
        work = pause(options.clients)
    elif options.resume:
        work = resume(options.resume)
    elif options.linger:
        work = linger()
    else:
        work = clients(options.name, options.clients, options.lives, options.meet)
    asyncio.run(work)
    tell(done=True)
    # Without taking the interpreter down: threads of the SDK's transport abort now and then when
    # that happens, after the last request has been answered.
    os._exit(0)


if __name__ == "__main__":
    main()
