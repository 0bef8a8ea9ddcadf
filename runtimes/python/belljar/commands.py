"""`!command` without a terminal, and an end to what `%%bash` leaves behind."""

import codecs
import os
import selectors
import signal
import subprocess
import sys
import threading

from . import installed

PATIENCE = 0.2


def system(shell, command):
    """Runs `command` and writes its output to the cell's streams as it comes."""
    where = os.environ.get("SHELL") or None
    if command.rstrip().endswith("&"):
        # It outlives the cell, so it gets descriptors 1 and 2 themselves.
        shell.user_ns["_exit_code"] = subprocess.call(
            command, shell=True, executable=where, stdin=subprocess.DEVNULL
        )
        return
    with subprocess.Popen(
        command, shell=True, executable=where, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:
        try:
            copy(process)
            code = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    installed.refresh()
    # Not returned: a value would be shown as the cell's result.
    shell.user_ns["_exit_code"] = code
    if getattr(shell, "system_raise_on_error", False) and code:
        raise subprocess.CalledProcessError(code, command)


def copy(process):
    utf8 = codecs.getincrementaldecoder("utf-8")
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, (sys.stdout, utf8("replace")))
        selector.register(process.stderr, selectors.EVENT_READ, (sys.stderr, utf8("replace")))
        while selector.get_map():
            ready = selector.select(PATIENCE)
            if not ready and process.poll() is not None:
                # A background process still holds the pipes.
                return
            for key, _ in ready:
                stream, decoder = key.data
                chunk = os.read(key.fd, 65536)
                stream.write(decoder.decode(chunk, final=not chunk))
                if not chunk:
                    selector.unregister(key.fileobj)


def stop_script_loop(shell):
    """Ends the thread in which `%%bash` and its kin ran their event loop.

    IPython keeps it for the next use, but a context with a thread cannot be
    forked. Programs started with `--bg` still need it.
    """
    magics = shell.magics_manager.registry.get("ScriptMagics")
    loop = getattr(magics, "event_loop", None)
    if loop is None or any(process.returncode is None for process in magics.bg_processes):
        return
    runner = next((t for t in threading.enumerate() if getattr(t, "_target", None) == loop.run_forever), None)
    if runner is not None:
        loop.call_soon_threadsafe(loop.stop)
        runner.join(PATIENCE)
    if not loop.is_running():
        loop.close()
        magics.event_loop = None
