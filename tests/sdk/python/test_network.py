"""What later releases bring, and what says so until then."""

import pytest
from e2b import Sandbox
from e2b.exceptions import SandboxException

refuses, covers = pytest.mark.refuses, pytest.mark.covers


def refused(call, word):
    with pytest.raises(SandboxException, match=f"(?i){word}") as refusal:
        call().kill()
    assert refusal.value.status_code in (400, 501)


@refuses("Sandbox.create(network=)")
def test_network_rules_are_refused_and_leave_no_sandbox():
    refused(lambda: Sandbox.create(network={"allow_out": ["10.0.0.1"]}), "network")
    refused(lambda: Sandbox.create(network={"egress_proxy": {"address": "10.0.0.1:1080"}}), "network")


@refuses("Sandbox.create(allow_internet_access=True)")
def test_the_internet_is_refused():
    refused(lambda: Sandbox.create(allow_internet_access=True), "internet|network")


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


@refuses("Sandbox.update_network")
def test_a_network_update_is_refused_and_the_sandbox_goes_on(sandbox):
    with pytest.raises(SandboxException, match="(?i)network") as refusal:
        sandbox.update_network({"allow_out": ["10.0.0.0/8"]})
    assert refusal.value.status_code in (400, 501)
    assert sandbox.commands.run("echo on").stdout == "on\n"


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
