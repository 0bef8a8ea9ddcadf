"""Servers inside a sandbox, as the world sees them, and what they see of the world."""

import http.client
import json
import os
import socket
import time
import urllib.parse

import pytest

covers = pytest.mark.covers

ADDRESS = urllib.parse.urlsplit(os.environ["E2B_SANDBOX_URL"])

SERVER = r'''
import http.server, json, socketserver, threading

go = threading.Event()

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/upgrade":
            self.send_response(101)
            self.send_header("Upgrade", "echo")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            while data := self.connection.recv(4096):
                self.connection.sendall(data.upper())
            self.close_connection = True
            return
        if self.path == "/stream":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (b"one", b"two"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                # Until somebody asks for /go.
                go.wait()
            self.wfile.write(b"0\r\n\r\n")
            return
        if self.path == "/endless-header":
            self.send_response(200)
            self.send_header("X-Long", "x" * 1_000_000)
            self.end_headers()
            return
        if self.path == "/go":
            go.set()
        self.answer({"path": self.path, "headers": dict(self.headers)})

    def do_POST(self):
        left = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read(min(left, 65536)))
        self.answer({"length": self.headers["Content-Length"]})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "X-Between")
        self.send_header("X-Between", "1")
        self.end_headers()
        self.wfile.write(body)

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

Server(("127.0.0.1", 8130), Handler).serve_forever()
'''


def serve(sandbox, port=8130):
    """Starts the server; requests may come at once, as each is held back for a second.

    A machine that lost its cores needs longer to start it: then another one is sent.
    """
    sandbox.files.write("/tmp/server.py", SERVER.replace("8130", str(port)))
    sandbox.commands.run("exec python3 /tmp/server.py", background=True, timeout=0)
    deadline = time.monotonic() + 60
    while True:
        asked = time.monotonic()
        if ask(sandbox, port=port)[0].status != 502:
            return
        assert time.monotonic() - asked > 0.9, "a request was not held back"
        assert asked < deadline, "the server inside never answered"


@pytest.fixture(scope="module")
def served(sandbox):
    serve(sandbox)
    return sandbox


def connect():
    return http.client.HTTPConnection(ADDRESS.netloc, timeout=60)


def ask(sandbox, path="/", port=8130, headers={}, **request):
    connection = connect()
    to = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(port)}
    connection.request(request.pop("method", "GET"), path, headers={**to, **headers}, **request)
    answer = connection.getresponse()
    return answer, answer.read()


@covers("Sandbox.get_host")
def test_requests_and_bodies_arrive_whole(served):
    answer, body = ask(served, "/a%20b?c=d")
    assert (answer.status, json.loads(body)["path"]) == (200, "/a%20b?c=d")
    answer, body = ask(served, method="POST", body=bytes(5_000_000))
    assert json.loads(body) == {"length": "5000000"}


@covers("Sandbox.get_host")
def test_what_is_between_neighbours_stays_there(served):
    headers = {"Connection": "keep-alive, X-Private", "X-Private": "1", "X-Public": "2"}
    answer, body = ask(served, headers=headers)
    seen = {name.lower() for name in json.loads(body)["headers"]}
    assert "x-public" in seen and "x-private" not in seen
    assert answer.getheader("X-Between") is None


@covers("Sandbox.get_host")
def test_credentials_of_ours_stay_outside(served):
    token, key = served._envd_access_token, os.environ["E2B_API_KEY"]
    host = served.get_host(8130)
    connection = connect()
    headers = {"Host": host, "X-Access-Token": token, "X-API-Key": key, "Authorization": "Bearer theirs"}
    connection.request("GET", "/", headers=headers)
    body = connection.getresponse().read().decode()
    assert token not in body and key not in body and "Bearer theirs" in body
    seen = {name.lower(): value for name, value in json.loads(body)["headers"].items()}
    assert seen["host"] == host


@covers("Sandbox.get_host")
def test_answers_flow_as_they_come(served):
    connection = connect()
    headers = {"E2b-Sandbox-Id": served.sandbox_id, "E2b-Sandbox-Port": "8130"}
    connection.request("GET", "/stream", headers=headers)
    answer = connection.getresponse()
    assert answer.read(3) == b"one"
    ask(served, "/go")
    assert answer.read() == b"two"


@covers("Sandbox.get_host")
def test_an_upgraded_connection_goes_both_ways(served):
    with socket.create_connection((ADDRESS.hostname, ADDRESS.port), timeout=60) as stream:
        head = f"GET /upgrade HTTP/1.1\r\nHost: {served.get_host(8130)}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        stream.sendall(head.encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += stream.recv(1)
        assert answer.startswith(b"HTTP/1.1 101 ") and b"upgrade: echo" in answer.lower()
        for word in (b"ping", b"pong"):
            stream.sendall(word)
            assert stream.recv(100) == word.upper()
        stream.shutdown(socket.SHUT_WR)
        assert stream.recv(100) == b""


@covers("Sandbox.get_host")
def test_a_server_cannot_fill_us_with_headers(served):
    answer, _ = ask(served, "/endless-header")
    assert answer.status == 502
    assert ask(served)[0].status == 200


@covers("Sandbox.get_host")
def test_no_port_of_the_host_is_reached(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        port = listener.getsockname()[1]
        answer, body = ask(sandbox, port=port)
        assert answer.status == 502 and json.loads(body)["message"] == "The sandbox is running but port is not open"
        with pytest.raises(TimeoutError):
            listener.accept()


@covers("Sandbox.get_host")
def test_nobody_tunnels_through(served):
    with socket.create_connection((ADDRESS.hostname, ADDRESS.port), timeout=60) as stream:
        to = f"E2b-Sandbox-Id: {served.sandbox_id}\r\nE2b-Sandbox-Port: 8130\r\n"
        stream.sendall(f"CONNECT elsewhere:80 HTTP/1.1\r\nHost: elsewhere:80\r\n{to}\r\n".encode())
        # A server refuses the method. Control refuses the request before a node sees it.
        refusal = 400 if os.environ.get("SDK_CLUSTER") else 405
        assert stream.recv(100).startswith(b"HTTP/1.1 %d " % refusal)


@covers("Sandbox.create")
def test_private_traffic_needs_its_token(fresh):
    sandbox = fresh(network={"allow_public_traffic": False})
    serve(sandbox)
    token = "E2b-Traffic-Access-Token"
    for headers, status in (({}, 403), ({token: "wrong"}, 403), ({token: sandbox.traffic_access_token}, 200)):
        answer, body = ask(sandbox, headers=headers)
        assert answer.status == status, body
        assert sandbox.traffic_access_token not in body.decode()
        assert ask(sandbox, "/contexts", 49999, headers)[0].status == status


@covers("Sandbox.create")
@pytest.mark.parametrize("auto", [True, False])
def test_traffic_resumes_only_who_wished_so(fresh, auto):
    sandbox = fresh(lifecycle={"on_timeout": "pause", "auto_resume": auto})
    serve(sandbox)
    assert ask(sandbox)[0].status == 200
    sandbox.pause()
    answer, body = ask(sandbox)
    if auto:
        assert answer.status == 200
    else:
        assert answer.status == 502 and json.loads(body)["message"] == "The sandbox was not found"


@covers("Sandbox.kill")
def test_a_sandbox_that_is_gone_is_not_found(fresh):
    sandbox = fresh()
    sandbox.kill()
    answer, body = ask(sandbox)
    assert answer.status == 502 and json.loads(body)["message"] == "The sandbox was not found"
