"""Addresses that work outside the SDK: signed file URLs and the ports of a sandbox."""

import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

covers = pytest.mark.covers


def fetch(url, data=None, headers={}):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def form(content):
    body = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n' + content + b"\r\n--edge--\r\n"
    return {"data": body, "headers": {"Content-Type": "multipart/form-data; boundary=edge"}}


@covers("Sandbox.download_url")
def test_a_signed_url_reads_one_file_and_no_other(sandbox):
    sandbox.files.write("/home/user/shared.txt", "for everyone")
    sandbox.files.write("/home/user/private.txt", "for nobody")
    url = sandbox.download_url("/home/user/shared.txt")
    assert fetch(url) == (200, b"for everyone")
    assert fetch(url.replace("shared", "private"))[0] == 401
    assert fetch(sandbox.download_url("/home/user/none.txt"))[0] == 404


@covers("Sandbox.upload_url")
def test_a_signed_url_writes_one_file(sandbox):
    url = sandbox.upload_url("/home/user/incoming.txt")
    assert fetch(url, **form(b"from outside"))[0] == 200
    assert sandbox.files.read("/home/user/incoming.txt") == "from outside"
    assert fetch(url)[0] == 401, "a signature to write must not read"


@covers("Sandbox.download_url", "Sandbox.upload_url")
def test_signatures_expire(sandbox):
    sandbox.files.write("/home/user/brief.txt", "soon gone")
    url = sandbox.download_url("/home/user/brief.txt", user="user", use_signature_expiration=600)
    assert fetch(url) == (200, b"soon gone")
    write = sandbox.upload_url("/home/user/brief.txt", use_signature_expiration=1)
    url = sandbox.download_url("/home/user/brief.txt", user="user", use_signature_expiration=1)
    deadline = time.monotonic() + 60
    while (status := fetch(url)[0]) == 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert status == 401
    # The other was signed before.
    assert fetch(write, **form(b"too late"))[0] == 401
    assert sandbox.files.read("/home/user/brief.txt") == "soon gone"


@covers("Sandbox.get_host")
def test_a_server_in_the_sandbox_is_reached_by_its_host(sandbox):
    sandbox.files.write("/home/user/www/index.html", "<h1>under glass</h1>")
    server = sandbox.commands.run("python3 -m http.server 8123 -d /home/user/www", background=True, timeout=0)
    host = sandbox.get_host(8123)
    assert host.startswith(f"8123-{sandbox.sandbox_id}.")
    assert not host.split(":")[0].endswith(".e2b.app"), "the host is below a domain of the server's own"

    # The name need not resolve on this machine; what counts is that the server routes by it.
    address = urllib.parse.urlsplit(os.environ["E2B_SANDBOX_URL"]).netloc

    def get():
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("GET", "/", headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read()

    deadline = time.monotonic() + 60
    while (answer := get())[0] == 502 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert answer == (200, b"<h1>under glass</h1>")
    server.kill()


@covers("Sandbox.get_host")
def test_a_closed_port_says_so(sandbox):
    host = sandbox.get_host(8124)
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(os.environ["E2B_SANDBOX_URL"]).netloc, timeout=60)
    connection.request("GET", "/", headers={"Host": host})
    answer = connection.getresponse()
    assert answer.status == 502 and b"port is not open" in answer.read()
