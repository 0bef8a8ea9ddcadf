"""A git server: git's own HTTP backend, and the merge requests of a forge that calls itself Forgejo."""

import base64
import http.server
import json
import os
import pathlib
import subprocess
import threading

IDENTITY = {f"GIT_{who}_{what}": f"{who.lower()}@seed.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
CALC = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\nassert add(2, 3) == 5, add(2, 3)\nprint('passed')\n"


def git(at, *arguments):
    environment = {"PATH": os.environ["PATH"], "HOME": str(at), "GIT_CONFIG_NOSYSTEM": "1", **IDENTITY}
    done = subprocess.run(["git", *arguments], cwd=at, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class GitServer:
    def __init__(self, folder, key):
        self.root, self.key, self.pulls, self.seen = pathlib.Path(folder), key, [], []
        self.bare = self.root / "acme" / "widget.git"
        self.bare.mkdir(parents=True)
        git(self.bare, "init", "-q", "--bare", "-b", "main")
        work = self.root / "seed"
        git(self.root, "clone", "-q", str(self.bare), str(work))
        git(work, "checkout", "-q", "-B", "main")
        (work / "calc.py").write_text(CALC)
        (work / "test_calc.py").write_text(TEST)
        git(work, "add", ".")
        git(work, "commit", "-q", "-m", "First")
        git(work, "push", "-q", "origin", "main")
        handler = type("Handler", (Handler,), {"owner": self})
        self.serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.serving.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.serving.server_address[1]}"

    def tip(self, branch):
        return git(self.bare, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")

    def passes(self, branch):
        """Returns true if the test of a branch passes, in a new clone."""
        at = self.root / "checked"
        git(self.root, "clone", "-q", "-b", branch, str(self.bare), str(at))
        return subprocess.run(["python3", "test_calc.py"], cwd=at, capture_output=True).returncode == 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        whole = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def say(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self):
        body, owner = self.body(), self.owner
        shown = self.headers.get("authorization", "")
        owner.seen.append((self.command, self.path, str(self.headers)))
        if self.path.startswith("/api/v1/"):
            if shown != f"token {owner.key}":
                return self.say(401, b"{}")
            status, answer = self.forge(body)
            return self.say(status, json.dumps(answer).encode(), [("content-type", "application/json")])
        if shown != "Basic " + base64.b64encode(f"bot:{owner.key}".encode()).decode():
            return self.say(401, b"", [("www-authenticate", 'Basic realm="git"')])
        return self.backend(body)

    do_GET = do_POST = answer

    def forge(self, body):
        pulls, path = self.owner.pulls, self.path.partition("?")[0]
        if path != "/api/v1/repos/acme/widget/pulls":
            return 404, {"message": "not found"}
        if self.command == "GET":
            return 200, pulls
        new = json.loads(body)
        if any((pull["head"]["ref"], pull["base"]["ref"]) == (new["head"], new["base"]) for pull in pulls):
            return 409, {"message": "pull request already exists for these targets"}
        number = len(pulls) + 1
        pulls.append({
            "number": number, "html_url": f"https://git.example/acme/widget/pulls/{number}", "title": new["title"],
            "head": {"ref": new["head"], "repo": {"full_name": "acme/widget"}}, "base": {"ref": new["base"]},
        })  # fmt: skip
        return 201, pulls[-1]

    def backend(self, body):
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.owner.root), "GIT_PROJECT_ROOT": str(self.owner.root),
            "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "bot", "REQUEST_METHOD": self.command, "PATH_INFO": path,
            "QUERY_STRING": query, "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)), "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            "GIT_CONFIG_NOSYSTEM": "1",
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        status = int(headers.pop("Status", "200").split()[0])
        self.say(status, rest, headers.items())
