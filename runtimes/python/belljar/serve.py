"""The loop of a context: one message from the host at a time."""

import os
import platform
import select
import signal
import sys
import threading

from . import DESCRIPTOR, identity, installed, offer, warm
from .channel import Channel, Stream


def run(config):
    """An exec-started context."""
    nothing = os.open("/dev/null", os.O_RDONLY)
    if nothing != 0:
        os.dup2(nothing, 0)
        os.close(nothing)
    channel = Channel(DESCRIPTOR)
    shell = prepare(channel)
    if shell is None:
        sys.exit(1)
    if "warm" in config:
        problem = warm_up(shell, config["warm"])
        if problem:
            channel.send({"ev": "unfit", "reason": problem})
            sys.exit(1)
    serve(shell)


def warm_up(shell, source):
    """Runs a template's warm source and typical jobs, whose frames go nowhere.
    Returns what went wrong, or `None`."""
    channel = shell.channel
    descriptor = channel.descriptor
    channel.descriptor = os.open("/dev/null", os.O_RDWR)
    try:
        exec(compile(source, "<warm>", "exec"), {"__name__": "__warm__"})
        warm.up(shell)
    except BaseException as error:
        return f"the template's warm source failed: {type(error).__name__}: {error}"
    finally:
        os.close(channel.descriptor)
        channel.descriptor = descriptor
    channel.alarm.forget()
    identity.reseed()
    return None


def prepare(channel):
    """The shell of this process, or `None` after telling the host why not."""
    os.environ.setdefault("MPLBACKEND", "agg")
    # IPython would load it only for completion.
    blocked = "jedi" not in sys.modules
    if blocked:
        sys.modules["jedi"] = None
    try:
        from .shell import Shell
    except ImportError as error:
        channel.send({"ev": "unfit", "reason": f"IPython cannot be imported: {error}"})
        return None
    finally:
        if blocked:
            del sys.modules["jedi"]
    sys.stdout = Stream(channel, "stdout", 1)
    sys.stderr = Stream(channel, "stderr", 2)
    shell = Shell.instance(channel=channel)
    channel.alarm.install()
    offer.publish()
    installed.install()
    signal.signal(signal.SIGINT, lambda _number, frame: interrupt(channel, frame))
    sys.unraisablehook = retrying(channel, sys.unraisablehook)
    # For processes that user code forks, not for those the zygote does.
    os.register_at_fork(after_in_child=lambda: None if channel.keep else channel.detach())
    return shell


def interrupt(channel, frame):
    """SIGINT ends the running cell and means nothing between cells."""
    if channel.running and not channel.busy(frame):
        raise KeyboardInterrupt
    # A cell whose message is here but not read yet has been started, as far
    # as the host can tell.
    waits = channel.taking or channel.unread or select.select([channel.descriptor], [], [], 0)[0]
    if channel.running or waits:
        channel.interrupted = True


def retrying(channel, other):
    """Python drops what is raised in finalizers and weak reference callbacks.
    An interrupt that struck there is tried again by the alarm."""
    def hook(dropped):
        if dropped.exc_type is KeyboardInterrupt and channel.running:
            channel.interrupted = True
            channel.alarm.arm()
        else:
            other(dropped)

    return hook


def serve(shell):
    """Answers the host until it closes its end. Does not return."""
    channel = shell.channel
    channel.send({
        "ev": "ready", "language": "python",
        "version": platform.python_version(), "pid": os.getpid(),
    })
    while True:
        try:
            message = channel.receive()
        except OSError:
            os._exit(1)
        if message is None:
            os._exit(0)
        operation = message.get("op")
        if operation == "run":
            channel.cell = message["id"]
            lent = lend(message["env"]) if message.get("env") else None
            shell.cell(message["code"], message.get("store", True), lent)
        elif operation == "wake":
            channel.alarm.forget()
            problem = identity.wake(message)
            channel.send({"ev": "awake", **({"problem": problem} if problem else {})})
        elif operation == "rehearse":
            warm.rehearse(shell)
        elif operation == "park":
            channel.send(parked(shell))
            channel.over()


def lend(variables):
    """Sets what a cell brings of environment; the answer takes it back."""
    before = {name: os.environ.get(name) for name in variables}

    def give_back():
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    os.environ.update(variables)
    return give_back


def parked(shell):
    """What a copy of this process could not take along."""
    close_idle_loop()
    umask = os.umask(0o077)
    os.umask(umask)
    try:
        where = os.getcwd()
    except OSError:
        where = None
    main = threading.main_thread()
    return {
        "ev": "parked", "cwd": where, "umask": umask,
        "threads": [thread.name for thread in threading.enumerate() if thread is not main],
        "tasks": count("/proc/self/task"),
        "descriptors": descriptors(),
    }


def count(folder):
    try:
        return len(os.listdir(folder))
    except OSError:
        return None


def descriptors():
    found = []
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for number in sorted(map(int, names)):
        if number > DESCRIPTOR:
            try:
                found.append({"fd": number, "target": os.readlink(f"/proc/self/fd/{number}")})
            except OSError:
                # The listing's own descriptor.
                continue
    return found


def close_idle_loop():
    """Top-level await leaves an event loop with descriptors of its own. One
    without any work is closed; the next await makes another."""
    helpers = sys.modules.get("IPython.core.async_helpers")
    loop = getattr(helpers, "_asyncio_event_loop", None)
    if loop is None or loop.is_closed() or loop.is_running():
        return
    import asyncio

    watched = loop._selector.get_map() if getattr(loop, "_selector", None) else {}
    if not asyncio.all_tasks(loop) and not loop._scheduled and len(watched) <= 1:
        loop.close()
