"""Tests that a tier cannot pass, from tiers.tsv: who they are, and whether they are."""

import json
import pathlib
import urllib.request

TABLE = pathlib.Path(__file__).parent / "tiers.tsv"
NAMES = {"gvisor": "oci/runsc"}


def canonical(tier):
    return NAMES.get(tier, tier)


def exceptions(tier):
    """Test to reason."""
    lines = TABLE.read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return {test: reason for tiers, test, reason in rows if canonical(tier) in tiers.split(",")}


def wrong(server, tier):
    """A sandbox of which nothing is said must be of this tier, or all that follows is about another."""
    if not tier:
        return []
    # A machine that is emulated takes its time, and two at once take longer.
    server.warm(300)
    headers = {"X-API-KEY": server.key, "Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.api}/v1/sandboxes", method="POST", headers=headers, data=b"{}")
    with urllib.request.urlopen(request, timeout=300) as answer:
        made = json.load(answer)
    server.ask("DELETE", f"/v1/sandboxes/{made['id']}")
    return [] if made["tier"] == tier else [f"a sandbox is kept in {made['tier']}, not in {tier}"]


def unheard(part, record, tier):
    """Exceptions that no test bears the name of: they would excuse nothing, silently."""
    text = pathlib.Path(record).read_text()
    if part == "python":
        ran = {name.rpartition("/")[2] for name in json.loads(text)}
        listed = [test for test in exceptions(tier) if ".py::" in test]
    else:
        ran = {json.loads(line)["test"] for line in text.splitlines()}
        listed = [test for test in exceptions(tier) if ".mjs: " in test]
    return [f"tiers.tsv lists `{test}`, and there is no such test" for test in listed if test not in ran]


def tell(tier):
    listed = exceptions(tier)
    print(f"{tier}: {len(listed)} tests cannot pass there, and did not:" if listed else f"{tier}: no exception")
    for test, reason in listed.items():
        print(f"  {test}: {reason}")
