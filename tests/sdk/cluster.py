"""A platform on this machine, in the place of `belljar serve`: PostgreSQL, NATS, two controls, three nodes.

The suites ask one control and reach into sandboxes by the other, so that nothing
works by what one of them happens to remember.
"""

import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

from ports import free_port
from server import Server, alive, descendants, given, groups

NODES = 3
# PostgreSQL refuses to run as root.
POSTGRES = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]


def program(name):
    """The newest of Debian's versions, which are not on the search path; else what is there."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    path = found[-1] if found else shutil.which(name)
    if not path:
        raise SystemExit(f"there is no {name} on this machine")
    return str(path)


class Cluster(Server):
    # What is said to controls and to nodes besides.
    control_options = node_options = ()

    def start(self):
        self.children = []
        executable, options = str(self.command[0]), self.command[self.command.index("--gateway") :]
        self.admin_command = [executable, "admin", "--database", self.database()]
        nats = f"nats://127.0.0.1:{self.nats()}"
        self.admin("migrate")
        self.admin("tenant", "put", self.tenant, "--sandboxes", "200")
        self.key = self.admin("key", "add", self.tenant, "--scope", "sandboxes", "--scope", "templates").split()[-1]
        secret = self.folder / "control.key"
        self.admin("control-key", secret)
        controls = []
        for url in (self.api, self.data):
            listen, for_nodes = url.removeprefix("http://"), f"127.0.0.1:{free_port()}"
            controls.append(f"https://{for_nodes}")
            self.child(
                executable, "control", "--listen", listen, "--node-listen", for_nodes, "--control-key", secret,
                "--database", self.admin_command[-1], "--nats", nats,
                *(self.control_options if url == self.api else ()),
            )  # fmt: skip
        self.process = self.children[-1]
        # Control makes the authority that tokens are for.
        self.answers(f"{self.api}/v1/health")
        for number in range(1, NODES + 1):
            address = f"127.0.0.1:{free_port()}"
            own = self.folder / f"node-{number}"
            own.mkdir()
            own.chmod(0o711)
            token = own / "token"
            token.touch(mode=0o600)
            token.write_text(self.admin("node", "add", own.name))
            self.child(
                executable, "node", "--name", own.name, "--control", ",".join(controls), "--listen", address,
                "--enrol-token-file", token, "--nats", nats, "--slots", "100", "--data", own / "data",
                "--state", own / "engine", *self.node_options, *options,
            )  # fmt: skip

    def child(self, *command):
        process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        self.children.append(process)

    def database(self):
        folder = self.folder / "postgres"
        folder.mkdir(mode=0o700)
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        made = [program("initdb"), "--auth=trust", "--username=belljar", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run([*POSTGRES, *made, "-D", folder / "data"], check=True, stdout=self.log, stderr=self.log, cwd="/")
        command = [program("postgres"), "-D", folder / "data", "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        self.child(*POSTGRES, *command)
        deadline = time.monotonic() + 30
        while not (folder / ".s.PGSQL.5432").exists():
            if time.monotonic() > deadline:
                raise SystemExit(f"PostgreSQL does not come; see {self.log.name}")
            time.sleep(0.1)
        return f"postgres://belljar@localhost/postgres?host={folder}"

    def answers(self, url, seconds=60):
        """Waits until something answers there."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                urllib.request.urlopen(url, timeout=5).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise SystemExit(f"nothing answers at {url}; see {self.log.name}")
                time.sleep(0.1)

    def nats(self):
        port = free_port()
        self.child("nats-server", "--addr", "127.0.0.1", "--port", str(port), "-js", "-sd", self.folder / "nats")
        return port

    def admin(self, *arguments):
        done = subprocess.run([*self.admin_command, *arguments], stdout=subprocess.PIPE, stderr=self.log, text=True)
        if done.returncode:
            raise SystemExit(f"belljar admin {arguments[0]} failed; see {self.log.name}")
        return done.stdout

    def nodes(self):
        return json.loads(self.admin("--json", "node", "list"))

    def wait(self, seconds=120):
        """Until all of them are there and have shown that they are alive."""
        deadline = time.monotonic() + seconds
        while True:
            for process in self.children:
                if process.poll() is not None:
                    raise SystemExit(f"{process.args[:2]} ended with {process.returncode}; see {self.log.name}")
            try:
                for url in (self.api, self.data):
                    urllib.request.urlopen(f"{url}/v1/ready", timeout=30).close()
                if sum(node["state"] == "up" for node in self.nodes()) == NODES:
                    # Who did not hear of a node from itself finds it in the database.
                    time.sleep(1)
                    return
            except (OSError, urllib.error.HTTPError):
                pass
            if time.monotonic() > deadline:
                raise SystemExit(f"the platform was not there after {seconds} s; see {self.log.name}")
            time.sleep(0.1)

    def stop(self):
        """The last one first. Returns what was left behind, in words."""
        left = [f"{process.args[:2]} had ended by itself" for process in self.children if process.poll() is not None]
        before = {}
        for process in self.children:
            before |= descendants(process.pid)
        cgroups = groups([*(process.pid for process in self.children), *before])
        for process in reversed(self.children):
            # The first is PostgreSQL, which would wait for its clients at the other signal.
            process.send_signal(signal.SIGINT if process is self.children[0] else signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                left.append(f"{process.args[:2]} did not end within 30 s")
                process.kill()
                process.wait()
        deadline = given() + 5
        while (remains := [*alive(before), *filter(os.path.exists, cgroups)]) and given() < deadline:
            time.sleep(0.1)
        if not before or not cgroups:
            left.append("no process or cgroup of the nodes was found, so nothing was checked")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log.close()
        return left + remains


class TlsCluster(Cluster):
    """One that is reached by names: nothing but a domain, and whom to trust, is set."""

    def start(self):
        port = free_port()
        self.domain = f"sb.localhost:{port}"
        made = [self.command[0], "tls", "init", "--domain", "sb.localhost", "--data", self.folder]
        subprocess.run(made, check=True, stdout=self.log, stderr=subprocess.STDOUT)
        tls = self.folder / "tls"
        self.control_options = ["--tls-listen", f"127.0.0.1:{port}", "--tls-cert", tls / "server.pem"]
        self.control_options += ["--tls-key", tls / "server.key"]
        self.node_options = ["--domain", self.domain]
        self.authority = str(tls / "ca.pem")
        super().start()

    def variables(self):
        return {"E2B_DOMAIN": self.domain, "E2B_API_KEY": self.key, "SSL_CERT_FILE": self.authority}
