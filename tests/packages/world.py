"""Servers on this host that sandboxes are let out to: a web server with and
without TLS, a git server, cargo's registry, and a name server that leads there."""

import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import socketserver
import ssl
import struct
import subprocess
import tarfile
import threading

ADDRESS = "127.0.0.1"
NAME = "tools.example"
HELLO = "hello from outside"


class Names(socketserver.BaseRequestHandler):
    """Answers every question for an IPv4 address with this host's own."""

    def handle(self):
        question, socket = self.request
        end = question.index(0, 12) + 5
        is_ipv4 = question[end - 4 : end - 2] == b"\0\1"
        answer = question[:2] + struct.pack(">5H", 0x8180, 1, is_ipv4, 0, 0) + question[12:end]
        if is_ipv4:
            address = bytes(map(int, ADDRESS.split(".")))
            answer += struct.pack(">3HIH", 0xC00C, 1, 1, 60, 4) + address
        socket.sendto(answer, self.client_address)


class Web(http.server.BaseHTTPRequestHandler):
    """Files by path, and a repository below `/git`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.startswith("/git/"):
            return self.git(b"")
        body = self.server.files.get(self.path)
        self.answer(404 if body is None else 200, [], body or b"nothing here")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.git(body)

    def git(self, body):
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.repositories),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path.removeprefix("/git"),
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n") if line]
        status = next((value for name, value in fields if name == "Status"), "200")
        self.answer(int(status[:3]), [field for field in fields if field[0] != "Status"], body)

    def answer(self, status, fields, body):
        self.send_response(status)
        for name, value in [*fields, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def serving(server):
    """Serves until the block ends."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class World:
    """All of them, while it is entered; `settings` is the gateway's file for them."""

    def __init__(self, folder):
        self.folder = folder
        self.settings = folder / "world.toml"
        self.files = {"/hello": HELLO.encode()}
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        make_repository(self.folder / "git")
        self.http, self.https = (self.web(context) for context in (None, tls(self.folder)))
        names = self.stack.enter_context(serving(socketserver.UDPServer((ADDRESS, 0), Names)))
        self.settings.write_text(
            "[gateway]\n"
            f'openings = [{{ block = "{ADDRESS}", ports = [{self.http}, {self.https}] }}]\n'
            f'resolver = ["{ADDRESS}:{names}"]\n'
            f"trusted_roots = [{json.dumps(str(self.folder / 'authority.pem'))}]\n"
        )
        return self

    def __exit__(self, *why):
        self.stack.close()

    def web(self, context):
        server = http.server.ThreadingHTTPServer((ADDRESS, 0), Web)
        server.files = self.files
        server.repositories = self.folder / "git"
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        return self.stack.enter_context(serving(server))

    def add_registry(self, crate, source):
        """A registry with one crate; gives the URL of its index."""
        manifest = f'[package]\nname = "{crate}"\nversion = "1.0.0"\nedition = "2021"\n'
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, text in (("Cargo.toml", manifest), ("src/lib.rs", source)):
                member = tarfile.TarInfo(f"{crate}-1.0.0/{name}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        packed = packed.getvalue()
        entry = {"name": crate, "vers": "1.0.0", "deps": [], "features": {}, "yanked": False}
        entry["cksum"] = hashlib.sha256(packed).hexdigest()
        base = f"http://{NAME}:{self.http}"
        download = base + "/crates/{crate}-{version}.crate"
        self.files["/index/config.json"] = json.dumps({"dl": download}).encode()
        self.files[f"/index/{crate[:2]}/{crate[2:4]}/{crate}"] = json.dumps(entry).encode()
        self.files[f"/crates/{crate}-1.0.0.crate"] = packed
        return f"{base}/index/"


def make_repository(folder):
    """A repository with one file, `hello.git` in the folder."""
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "hello").write_text(HELLO)
    identity = ["-c", "user.name=test", "-c", "user.email=test@tools.example"]
    for command in (
        ["init", "--quiet"],
        ["add", "hello"],
        [*identity, "commit", "--quiet", "--message=hello"],
        ["clone", "--quiet", "--bare", ".", folder / "hello.git"],
    ):
        subprocess.run(["git", *map(str, command)], cwd=work, check=True, capture_output=True)


def tls(folder):
    """A server's certificate for the name, of an authority in `authority.pem`."""
    settings = folder / "leaf.cnf"
    settings.write_text(f"subjectAltName=DNS:{NAME}\nbasicConstraints=critical,CA:FALSE\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for command in (
        ["req", "-x509", *curve, "-keyout", "authority.key", "-out", "authority.pem", "-subj", "/CN=authority"],
        ["req", *curve, "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", f"/CN={NAME}"],
        ["x509", "-req", "-in", "leaf.csr", "-CA", "authority.pem", "-CAkey", "authority.key"]
        + ["-extfile", settings, "-out", "leaf.pem", "-days", "2"],
    ):
        subprocess.run(["openssl", *map(str, command)], cwd=folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "leaf.pem", folder / "leaf.key")
    return context
