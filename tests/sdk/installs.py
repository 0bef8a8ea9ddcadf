"""Template builds that install packages, on a server that gives builds a network, and on one that does not.

The indexes are those that this host's package managers are configured for. One may lie at a private
address, which only an operator opens: what first attempts are refused as private is opened.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "packages")]

from server import Server  # noqa: E402
from suite import Suite  # noqa: E402

TEMPLATE = "code-interpreter"
# Reaches the index of each manager; what is found does not matter.
REACH = {
    "pip": "pip3 download --no-cache-dir --no-deps --disable-pip-version-check --dest /tmp/found humanize",
    "npm": "npm view --cache /tmp/npm --fetch-retries 0 is-number dist.tarball",
    "apt": """
        mkdir -p /tmp/apt/state/lists/partial /tmp/apt/cache/archives/partial && cd /tmp/apt
        options="-q -o Dir::State=/tmp/apt/state -o Dir::State::status=/var/lib/dpkg/status"
        options="$options -o Dir::Cache=/tmp/apt/cache -o Acquire::Languages=none"
        apt-get $options update && apt-get $options download hello
    """,
}


def openings(executable):
    """The private addresses at which indexes lie, for the gateway's settings."""
    with tempfile.TemporaryDirectory(prefix="belljar-sdk-installs-") as folder:
        suite = Suite(types.SimpleNamespace(belljar=executable, keep=None), pathlib.Path(folder))
        for manager, command in REACH.items():
            suite.open_private(manager, ["sh", "-c", command], TEMPLATE)
        return suite.opened


def client(home, server, part):
    """Runs one part of installing.py against a server; tells whether all of it was as it must be."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    command = [home / "python" / "bin" / "python", HERE / "installing.py", part]
    return subprocess.run(command, env={**clean, **server.variables()}, timeout=900).returncode == 0


def run(executable, home, log, flags):
    """Returns what went wrong."""
    opened, wrong = openings(executable), []
    for part, network in (("with-network", ["--build-network", "packages"]), ("without-network", [])):
        own = log.with_suffix(f".{part}.log")
        # Sandboxes have none in either case: what is installed is in the template.
        server = Server(executable, own, "--network", "none", *network, *flags, openings=opened)
        try:
            server.wait()
            if not client(home, server, part):
                wrong.append(f"builds {part}; the server's log is in {own}")
            server.remove_templates()
            server.hold()
        finally:
            left = server.stop()
        wrong += left + [f"the server left a template behind: {path}" for path in server.templates()]
        if not left and not any(part in line for line in wrong):
            own.unlink()
    return wrong
