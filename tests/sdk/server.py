"""`belljar serve`, started for the suites and ended with nothing left of it."""

import contextlib
import http.server
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from ports import free_port


def given():
    """Seconds of a clock that stops while the host keeps the cores for others.

    What may not take longer than some time is given that time, also by a host that steals it.
    """
    with open("/proc/stat") as stat:
        stolen = int(stat.readline().split()[8])
    return time.monotonic() - stolen / os.sysconf("SC_CLK_TCK")


def descendants(root):
    """Process ids below `root`, each with its start time, which tells it from a later process with its number."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = (int(fields[1]), fields[19])
    found, below = {}, {root}
    while below:
        children = {pid for pid, (parent, _) in parents.items() if parent in below and pid not in found}
        found |= {pid: parents[pid][1] for pid in children}
        below = children
    return found


def groups(pids):
    """The engine's folders in the cgroup trees that these processes are in: .../belljar*/e<number>."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
                _, controllers, path = line.split(":", 2)
                parts = pathlib.Path(path).parts
                for index, part in enumerate(parts):
                    if part[0:1] == "e" and part[1:].isdigit() and index and parts[index - 1].startswith("belljar"):
                        for mount in mounts(controllers):
                            found.add(str(mount.joinpath(*parts[1 : index + 1])))
    return {path for path in found if os.path.exists(path)}


def mounts(controllers):
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        wanted = set(filter(None, controllers.split(",")))
        if (kind == "cgroup2" and not wanted) or (kind == "cgroup" and wanted and wanted <= set(options.split(","))):
            yield pathlib.Path(place)


class Upstream(http.server.BaseHTTPRequestHandler):
    """What sandboxes reach, if they may."""

    def do_GET(self):
        text = f"hello from outside: {self.path}\n".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def upstream():
    """Serves as long as this program runs. Not on 127.0.0.1, for which clients ask no proxy."""
    serving = http.server.ThreadingHTTPServer(("127.0.0.2", 0), Upstream)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    return serving.server_address


class Server:
    def __init__(self, executable, log, *options, openings=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="belljar-sdk-"))
        # The user ids of sandboxes must be able to pass through.
        self.folder.chmod(0o711)
        self.key = "e2b_" + secrets.token_hex(20)
        self.tenant = f"suites-{secrets.token_hex(4)}"
        (self.folder / "keys").write_text(f"{self.key}  {self.tenant}\n")
        os.chmod(self.folder / "keys", 0o600)
        host, port = upstream()
        self.upstream = f"{host}:{port}"
        gateway = self.folder / "gateway.toml"
        opened = [f'{{ block = "{host}/32", ports = [{port}] }}', *map(json.dumps, openings)]
        gateway.write_text(f"[gateway]\nopenings = [{', '.join(opened)}]\n")
        api, data = free_port(), free_port()
        self.api, self.data = f"http://127.0.0.1:{api}", f"http://127.0.0.1:{data}"
        self.log = open(log, "wb")
        self.command = [
            executable, "serve", "--listen", f"127.0.0.1:{api}", "--data-listen", f"127.0.0.1:{data}",
            "--state", self.folder / "engine", "--data", self.folder / "data", "--keys", self.folder / "keys",
            "--gateway", gateway, *options,
        ]  # fmt: skip
        self.start()

    def start(self):
        """Also after it has ended: on the same ports, with what the last one left."""
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)

    def variables(self):
        return {
            "E2B_API_URL": self.api,
            "E2B_SANDBOX_URL": self.data,
            "E2B_VOLUME_API_URL": self.api,
            "E2B_API_KEY": self.key,
            "SDK_UPSTREAM": self.upstream,
        }

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-API-KEY": self.key, "content-type": "application/json"}
        request = urllib.request.Request(f"{self.api}{path}", data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def hold(self):
        """Keeps a sandbox, so that there is something of the server's to end: not every tier has a pool."""
        self.ask("POST", "/sandboxes", {"templateID": "base", "timeout": 600})

    def remove_templates(self):
        """What was built lies in the store, which all servers of this machine share."""
        for entry in self.ask("GET", "/templates"):
            self.ask("DELETE", f"/templates/{entry['templateID']}")

    def templates(self):
        """Those of this server's tenant that lie in the store, whatever the server says."""
        store = pathlib.Path(os.environ.get("BELLJAR_STORE") or "/var/lib/belljar/templates")
        for path in sorted(store.glob("templates/*/*.json")):
            # Others may remove theirs meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if json.loads(path.read_text()).get("defaults", {}).get("owner") == self.tenant:
                    yield str(path)

    def sandboxes(self):
        """The ids of all sandboxes, page by page."""
        found, query = [], "state=running,paused&limit=100"
        while True:
            request = urllib.request.Request(f"{self.api}/v2/sandboxes?{query}", headers={"X-API-KEY": self.key})
            with urllib.request.urlopen(request, timeout=30) as answer:
                found += [entry["sandboxID"] for entry in json.load(answer)]
                following = answer.headers["x-next-token"]
            if not following:
                return found
            query = f"state=running,paused&limit=100&nextToken={urllib.parse.quote(following)}"

    def wait(self, seconds=120):
        deadline = time.monotonic() + seconds
        while True:
            if self.process.poll() is not None:
                raise SystemExit(f"belljar serve ended with {self.process.returncode}; see {self.log.name}")
            try:
                self.sandboxes()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise SystemExit(f"belljar serve did not answer in {seconds} s: {error}; see {self.log.name}")
                time.sleep(0.1)

    def warm(self, seconds=120):
        """Waits until it has said that its pool is there, which happens after it began to answer."""
        deadline = time.monotonic() + seconds
        while b"warm" not in pathlib.Path(self.log.name).read_bytes():
            if time.monotonic() > deadline:
                raise SystemExit(f"belljar serve was not warm after {seconds} s; see {self.log.name}")
            time.sleep(0.1)

    def stop(self):
        """Ends the server and returns what it left behind, in words."""
        if self.process.poll() is not None:
            return [f"the server had ended by itself, with {self.process.returncode}"]
        before = descendants(self.process.pid)
        cgroups = groups([self.process.pid, *before])
        self.process.send_signal(signal.SIGTERM)
        left = []
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            left.append("the server did not end within 30 s of SIGTERM")
            self.process.kill()
            self.process.wait()
        deadline = given() + 5
        while (remains := [*alive(before), *filter(os.path.exists, cgroups)]) and given() < deadline:
            time.sleep(0.1)
        if not before or not cgroups:
            left.append("no process or cgroup of the server was found, so nothing was checked")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log.close()
        return left + remains


class TlsServer(Server):
    """One that is reached by names: nothing but a domain, and whom to trust, is set."""

    def start(self):
        port = free_port()
        self.domain = f"sb.localhost:{port}"
        data = self.command[self.command.index("--data") + 1]
        made = [self.command[0], "tls", "init", "--domain", "sb.localhost", "--data", data]
        subprocess.run(made, check=True, stdout=self.log, stderr=subprocess.STDOUT)
        self.command += ["--tls-listen", f"127.0.0.1:{port}", "--domain", self.domain]
        self.authority = str(data / "tls" / "ca.pem")
        super().start()

    def variables(self):
        return {"E2B_DOMAIN": self.domain, "E2B_API_KEY": self.key, "SSL_CERT_FILE": self.authority}


def alive(started):
    for pid, start in started.items():
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if fields[19] == start and fields[0] != "Z":
                yield f"process {pid}"
