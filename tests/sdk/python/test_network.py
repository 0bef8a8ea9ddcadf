"""What sandboxes reach, and what is refused."""

import os

import pytest
from e2b import Sandbox
from e2b.exceptions import SandboxException

refuses, covers = pytest.mark.refuses, pytest.mark.covers


def refused(call, word):
    with pytest.raises(SandboxException, match=f"(?i){word}") as refusal:
        call().kill()
    assert refusal.value.status_code in (400, 501)


UPSTREAM = os.environ.get("SDK_UPSTREAM", "")
ASK = """import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode(), end="")
except urllib.error.HTTPError as error:
    print(error.code, error.headers.get("x-belljar-reason"))
except OSError:
    print("no way")
"""


def ask(sandbox, url=f"http://{UPSTREAM}/x"):
    """What a program inside that knows of nothing but its environment is told."""
    return sandbox.commands.run(f"python3 -c '{ASK}' {url}").stdout


REACHED = "hello from outside: /x\n"


@covers("Sandbox.create", "Sandbox.get_info")
def test_the_internet_is_reached_when_asked_for(fresh):
    sandbox = fresh(allow_internet_access=True)
    assert ask(sandbox) == REACHED
    assert sandbox.get_info().allow_internet_access is True
    # Nothing private is, except what the operator has opened.
    assert ask(sandbox, "http://127.0.0.3/") == "403 private\n"
    assert ask(sandbox, "http://169.254.169.254/") == "403 private\n"


@covers("Sandbox.create", "Sandbox.get_info")
def test_only_those_are_reached_who_are_named(fresh):
    sandbox = fresh(network={"allow_out": [UPSTREAM], "deny_out": ["0.0.0.0/0"]})
    assert ask(sandbox) == REACHED
    assert ask(sandbox, "http://example.com/") == "403 not_allowed\n"
    info = sandbox.get_info()
    assert info.allow_internet_access is False
    assert info.network["allow_out"] == [UPSTREAM]


@covers("Sandbox.update_network", "Sandbox.get_info")
def test_an_update_holds_from_then_on(fresh):
    sandbox = fresh()
    assert ask(sandbox) == "no way\n"
    sandbox.update_network({"allow_out": [UPSTREAM]})
    assert ask(sandbox) == REACHED
    sandbox.update_network({"allow_out": ["example.com"]})
    assert ask(sandbox) == "403 not_allowed\n"
    sandbox.update_network({"allow_internet_access": True})
    assert ask(sandbox) == REACHED
    sandbox.update_network({})
    assert ask(sandbox) == "403 no_network\n"
    assert sandbox.get_info().allow_internet_access is False


@covers("Sandbox.create", "Sandbox.connect")
def test_what_was_reached_is_reached_after_a_pause(fresh):
    sandbox = fresh(network={"allow_out": [UPSTREAM]})
    sandbox.pause()
    assert ask(Sandbox.connect(sandbox.sandbox_id)) == REACHED


@refuses("Sandbox.create(network.egress_proxy=)")
def test_another_proxy_is_refused_and_leaves_no_sandbox():
    refused(lambda: Sandbox.create(network={"egress_proxy": {"address": "10.0.0.1:1080"}}), "egressProxy")


@refuses("Sandbox.create(network.rules=)")
def test_rewriting_requests_is_refused():
    rules = {"example.com": [{"transform": {"headers": {"x-key": "secret"}}}]}
    refused(lambda: Sandbox.create(network={"rules": rules, "allow_out": ["example.com"]}), "rules")


@covers("Sandbox.create")
def test_no_internet_is_what_there_is(fresh):
    sandbox = fresh(allow_internet_access=False)
    probe = "timeout 3 bash -c '</dev/tcp/1.1.1.1/53' && echo open || echo closed"
    assert sandbox.commands.run(probe).stdout == "closed\n"


@refuses("Sandbox.create(iam=)")
def test_workload_identity_is_refused():
    tokens = {"cloud": {"audience": "bank", "token_type": "JWT-SVID"}}
    refused(lambda: Sandbox.create(iam={"tokens": tokens}), "iam|identity")


@refuses("Sandbox.create(mcp=)")
def test_the_mcp_gateway_is_refused():
    refused(lambda: Sandbox.create("base", mcp={"time": {}}), "mcp")


@covers("Sandbox.create", "Sandbox.get_info")
def test_what_only_denies_is_granted(fresh):
    sandbox = fresh(network={"deny_out": ["0.0.0.0/0"], "allow_public_traffic": False})
    assert sandbox.traffic_access_token
    assert sandbox.get_info().network["allow_public_traffic"] is False
    sandbox.update_network({"deny_out": ["10.0.0.0/8"]})
    assert sandbox.commands.run("echo on").stdout == "on\n"


@covers("Sandbox.get_mcp_url")
def test_the_mcp_address_names_the_sandbox(sandbox):
    assert sandbox.get_mcp_url() == f"https://{sandbox.get_host(50005)}/mcp"


@covers("Sandbox.get_mcp_token")
def test_the_mcp_token_is_read_from_its_place(sandbox):
    sandbox.files.write("/etc/mcp-gateway/.token", "token-of-the-gateway", user="root")
    assert sandbox.get_mcp_token() == "token-of-the-gateway"
