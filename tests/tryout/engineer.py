"""User C: a platform of three nodes on one machine, and what an operator does with it."""

import os
import pathlib
import re
import shlex
import signal
import socket
import string

from place import ROOT, ask, remove_templates
from ports import free_port
from script import Script, expect, is_so
from sdk import look_at_docs, sdk

script = Script("c", "a platform engineer")
step = script.step

NODES = ("node-1", "node-2", "node-3")


def admin(place, words):
    return place.sh(f"belljar admin --database-file {place.dev}/database {words}")


def nodes(place):
    """The nodes by name."""
    return {node["name"]: node for node in admin(place, "node list --json").ends(0).json()}


def call(place, method, path, body=None, key=None, **headers):
    return ask(method, f"{place.url}{path}", body, key or place.key, headers)


def create(place, key=None, **fields):
    return call(place, "POST", "/v1/sandboxes", {"timeout_seconds": 600} | fields, key)


def on(place, node):
    return admin(place, f"sandbox list --json --node {node}").ends(0).json()


def log(place, role):
    return (place.dev / "logs" / f"{role}.log").read_text(errors="replace")


@step("belljar dev --nodes 3 --metrics …; . dev/env")
def dev(place):
    port, place.metrics = free_port(), metrics_port()
    place.url, place.dev = f"http://127.0.0.1:{port}", place.folder / "dev"
    command = f"belljar dev --nodes 3 --listen 127.0.0.1:{port} --data {place.dev} --metrics 127.0.0.1:{place.metrics}"
    place.server = place.serve("dev", command)
    place.server.wait_for("ready, and how to use it", lambda: "export E2B_API_KEY=" in place.server.said())
    said = place.server.said()
    is_so("ready after" in said and "use it:" in said and "node list" in said, "what to type next", said)
    exports = place.sh(f"set -a; . {place.dev}/env; env -0").ends(0).out.split("\0")
    place.environment |= dict(entry.split("=", 1) for entry in exports if entry.startswith("E2B_"))
    place.key = place.environment["E2B_API_KEY"]
    place.at_the_end.append(lambda: remove_templates(place.url, place.key))


def metrics_port():
    """A port that has three free ones after it: those of the nodes."""
    while True:
        first = free_port()
        try:
            for port in range(first + 1, first + 4):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue


def child(place, name):
    """The process of a node of `belljar dev`."""
    pid = place.server.process.pid
    for other in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        words = pathlib.Path(f"/proc/{other}/cmdline").read_bytes().split(b"\0")
        if b"--name" in words and words[words.index(b"--name") + 1] == name.encode():
            return int(other)
    raise LookupError(f"no process of {name}")


@step("belljar admin node list: three nodes, up, numbered in order")
def listed(place):
    found = nodes(place)
    expect(sorted(found), list(NODES), "nodes")
    expect([found[name]["state"] for name in NODES], ["up"] * 3, "states")
    expect([found[name]["number"] for name in NODES], [1, 2, 3], "numbers")
    is_so(admin(place, "node list").ends(0).out.startswith("NODE "), "a table with a header", "none")


@step("a sandbox over /v1, and one with E2B's SDK")
def sandboxes(place):
    made = create(place).is_a(201).json()
    answer = call(place, "POST", f"/v1/sandboxes/{made['id']}/calls", {"script": "echo hello"}).is_a(200).json()
    expect(answer["stdout"]["data"], "hello\n", "the output")
    call(place, "DELETE", f"/v1/sandboxes/{made['id']}")
    ran = sdk(place, "hello", "box = Sandbox.create(timeout=60)\nprint(box.run_code('6 * 7').text)\nbox.kill()\n")
    ran.prints("42\n")


@step("each tier that node list offers starts; one that it does not offer is refused by name")
def tiers(place):
    offered = nodes(place)["node-1"]["tiers"]
    is_so("jail" in offered, "jail", offered)
    for tier in ("jail", "oci/crun", "oci/runc", "oci/runsc"):
        answer = create(place, tier=tier)
        if tier in offered:
            expect(answer.is_a(201).json()["tier"], tier, "the tier")
            call(place, "DELETE", f"/v1/sandboxes/{answer.json()['id']}")
        else:
            expect(answer.json().get("code"), "tier_unavailable", f"the refusal of {tier}")


@step("/docs of a plain platform: its own address, not https")
def docs(place):
    look_at_docs(place.url)


@step("/metrics of control and of every node")
def metrics(place):
    for offset, role in enumerate(("control", "node", "node", "node")):
        text = ask("GET", f"http://127.0.0.1:{place.metrics + offset}/metrics").is_a(200).text
        is_so(f'role="{role}"' in text, f"metrics of {role}", text[:1000])


@step("Template.build with a copied file on a plain platform; template list: owners, aligned columns")
def templates(place):
    place.write("seed/data.txt", "from the context\n")
    ran = sdk(place, "build", f"""
        template = Template(file_context_path={str(place.work)!r}).from_template("base")
        template = template.copy("seed/data.txt", "/home/user/data.txt")
        info = Template.build(template, "tryout-copied", on_build_logs=lambda entry: None)
        box = Sandbox.create(info.name, timeout=60)
        print(box.commands.run("cat data.txt").stdout.strip())
        box.kill()
    """)  # fmt: skip
    ran.prints("from the context\n")
    lines = place.sh("belljar template list").ends(0).lines()
    head = lines[0].split()
    is_so("OWNER" in head, "a column OWNER", lines[0])
    start = lines[0].index("OWNER")
    owners = {line[:start].split("@")[0]: line[start:].split()[0] for line in lines[1:]}
    expect(owners.get("python-data"), "-", "the owner of the operator's template")
    is_so("dev" in owners.values(), "a template of the tenant dev", owners)
    # A long name moves no column: each begins behind a gap.
    is_so(all(line[start - 1] == " " for line in lines[1:]), "columns below each other", "\n".join(lines))
    # While its node is there.
    remove_templates(place.url, place.key)


@step("belljar admin sandbox list, --node, --tenant")
def sandbox_list(place):
    made = [create(place).is_a(201).json()["id"] for _ in range(6)]
    text = admin(place, "sandbox list --tenant dev").ends(0).out
    is_so(text.startswith("SANDBOX ") and all(name in text for name in made), f"all of {made}", text)
    found = {name: {row["id"] for row in on(place, name)} for name in NODES}
    expect(set().union(*found.values()) & set(made), set(made), "sandboxes by node")
    admin(place, "sandbox list --node node-9").ends(1).says("no node `node-9`", "hint: ")
    place.found = found


@step("kill -9 of a node: dev goes on; 503 that names the request; then `lost`")
def killed(place):
    place.victim = next(name for name in NODES[1:] if place.found[name])
    place.hit = sorted(place.found[place.victim])[0]
    os.kill(child(place, place.victim), signal.SIGKILL)
    path = f"/v1/sandboxes/{place.hit}"
    place.refusal = place.server.wait_for("node_unreachable", lambda: unreached(call(place, "GET", path)))
    request = place.refusal.headers["x-request-id"]
    is_so(request and request in place.refusal.text, "the request's id in the answer", place.refusal.text)
    place.server.wait_for("the node to be lost", lambda: nodes(place)[place.victim]["state"] == "lost")
    is_so(f"{place.victim} died" in place.server.said(), "a line about the node", place.server.said())
    is_so("--restart-nodes" in place.server.said(), "how to start it again", place.server.said())
    answer = create(place).is_a(201).json()
    is_so(answer["id"], "a sandbox on another node", answer)


def unreached(answer):
    return answer if answer.status == 503 and answer.json().get("code") == "node_unreachable" else None


@step("control's log names the node, the sandbox and the request")
def logs(place):
    text = log(place, "control")
    request = place.refusal.headers["x-request-id"]
    for words in (
        ("request not forwarded", request, place.hit, place.victim),
        ("node lost", place.victim),
        ("sandbox lost with its node", place.hit, place.victim),
    ):
        is_so(any(all(word in line for word in words) for line in text.splitlines()), f"a line with {words}", text[-3000:])


@step("/v1/ended: lost, with the tier")
def ended(place):
    items = call(place, "GET", "/v1/ended?limit=50").is_a(200).json()["items"]
    found = [item for item in items if item["id"] == place.hit]
    is_so(found, place.hit, items)
    expect((found[0]["reason"], found[0]["tier"]), ("lost", "jail"), "reason and tier")


@step("node forget: not a node that is connected; a lost one is gone from the list")
def forget(place):
    others = [name for name in NODES if name != place.victim]
    admin(place, f"node forget {others[0]}").ends(1).says("is connected", "hint: ")
    admin(place, f"node forget {place.victim}").ends(0)
    expect(sorted(nodes(place)), others, "nodes")
    place.nodes = others


@step("drain every node: not ready, creates refused with a reason; undrain")
def drain(place):
    for name in place.nodes:
        admin(place, f"node drain {name}").ends(0).says("takes no new sandboxes")
    not_ready = place.server.wait_for("503 from /v1/ready", lambda: refuses(call(place, "GET", "/v1/ready")))
    expect(not_ready.json()["code"], "no_node", "the code")
    is_so("draining" in not_ready.text, "the reason", not_ready.text)
    answer = create(place).is_a(503).json()
    is_so(answer["code"] in ("no_node", "no_capacity"), "no_node or no_capacity", answer)
    for name in place.nodes:
        admin(place, f"node undrain {name}").ends(0).says("takes new sandboxes again")
    place.server.wait_for("200 from /v1/ready", lambda: call(place, "GET", "/v1/ready").status == 200)
    create(place).is_a(201)


def refuses(answer):
    return answer if answer.status == 503 else None


@step("tenant put acme --sandboxes 2 --floor …; key add; a third sandbox; the floor stays")
def quota(place):
    floor = "gvisor" if "oci/runsc" in nodes(place)[place.nodes[0]]["tiers"] else "jail"
    admin(place, f"tenant put acme --sandboxes 2 --floor {floor}").ends(0).says("created tenant acme", "key add acme")
    place.acme = admin(place, "key add acme --label production --expires-in 720h").ends(0).out.strip()
    wanted = "oci/runsc" if floor == "gvisor" else "jail"
    made = [create(place, place.acme).is_a(201).json()]
    if floor == "gvisor":
        weak = create(place, place.acme, tier="jail")
        expect(weak.is_a(422).json()["code"], "tier_too_weak", "a weaker tier")
    made.append(create(place, place.acme).is_a(201).json())
    third = create(place, place.acme).is_a(429)
    expect(third.json()["code"], "too_many_sandboxes", "the code")
    is_so("quota" in third.json()["message"] and third.json().get("hint"), "the reason and a hint", third.text)
    expect({box["tier"] for box in made}, {wanted}, "tiers")
    admin(place, "tenant put acme --max-lifetime 2h").ends(0)
    [row] = [row for row in admin(place, "tenant list --json").ends(0).json() if row["name"] == "acme"]
    expect((row["sandboxes"], row["floor"], row["longest_life_seconds"]), (2, wanted, 7200), "acme")
    for box in made:
        call(place, "DELETE", f"/v1/sandboxes/{box['id']}", key=place.acme).is_a(204)


@step("key list, key revoke: refused within seconds; the audit log has it")
def keys(place):
    [row] = admin(place, "key list acme --json").ends(0).json()
    expect(row["label"], "production", "the label")
    admin(place, f"key revoke acme {row['id']}").ends(0)
    place.server.wait_for("401", lambda: call(place, "GET", "/v1/sandboxes", key=place.acme).status == 401)
    text = admin(place, "audit --tenant acme -n 20").ends(0).out
    for action in ("tenant.put", "key.add", "key.revoke"):
        is_so(action in text, f"`{action}` in the audit log", text)
    is_so(place.acme not in text, "no key in the audit log", text)


@step("price set, bill: what was run is charged once")
def bill(place):
    admin(place, "price set sandbox_second 0.00002").ends(0)
    is_so("0.00002" in admin(place, "price list").ends(0).out, "the price", admin(place, "price list").out)
    ran = place.server.wait_for("a bill", lambda: charged(admin(place, "bill acme --within 24h").ends(0)))
    is_so("total" in ran.out, "a total", ran.told())
    expect(admin(place, "bill acme --within 24h").out, ran.out, "the same bill again")


def charged(ran):
    return ran if ran.out.startswith("ACCOUNT") else None


@step("serve --help, node --help, admin --help: options under the right headings, each described")
def helps(place):
    for command in ("serve", "node"):
        heads = headings(place.sh(f"belljar {command} --help").ends(0).out)
        for option in ("--pool", "--config", "--data"):
            expect(heads.get(option), "Server", f"the heading of {option} of {command}")
    text = place.sh("belljar admin tenant --help").ends(0).out
    heads = headings(text)
    for option in ("--store", "--state"):
        is_so(heads.get(option) in (None, "Global options"), f"{option} apart from the command's own", heads)


def headings(text):
    """The heading under which each option stands."""
    found, heading = {}, None
    for line in text.splitlines():
        if title := re.fullmatch(r"(\w[\w ]*):", line):
            heading = title[1]
        elif option := re.match(r"\s+(?:-\w, )?(--[\w-]+)", line):
            found[option[1]] = heading
    return found


@step("packaging: the unit's command line starts a server; the Compose file names real options")
def packaging(place):
    unit = (ROOT / "packaging" / "systemd" / "belljar-serve.service").read_text()
    settings = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / "packaging" / "examples" / "serve.env").read_text(), re.MULTILINE))
    address = f"127.0.0.1:{free_port()}"
    settings |= {"LISTEN": address, "METRICS": f"127.0.0.1:{free_port()}", "OPTIONS": ""}
    line = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1]
    words = shlex.split(string.Template(line).substitute(settings))
    here = place.folder / "packaged"
    here.mkdir()
    # The machine's own directories are not this user's.
    config = (ROOT / "packaging" / "examples" / "node.toml").read_text()
    gateway = (ROOT / "packaging" / "examples" / "gateway.toml").read_text()
    place.write("gateway.toml", gateway)
    place.write("node.toml", config.replace("/etc/belljar/gateway.toml", str(place.work / "gateway.toml")))
    store = place.environment.get("BELLJAR_STORE") or "/var/lib/belljar/templates"
    instead = {
        "/usr/bin/belljar": "belljar",
        "/etc/belljar/node.toml": str(place.work / "node.toml"),
        "/var/lib/belljar/serve": str(here),
        "/var/lib/belljar/templates": store,
    }
    server = place.serve("packaged", shlex.join(instead.get(word, word) for word in words))
    server.wait_for("200 from /v1/ready", lambda: ask("GET", f"http://{address}/v1/ready").status == 200)
    status, left = server.stop(signal.SIGTERM)
    expect((status, left), (0, []), "the end of the server")
    compose = (ROOT / "packaging" / "docker" / "serve.compose.yaml").read_text()
    known = place.sh("belljar serve --help").ends(0).out
    for option in re.findall(r"- (--[\w-]+)", compose):
        is_so(option in known, f"the option {option} of the Compose file in serve --help", "none")


@step("Ctrl-C of dev: everything ends, in order; started again, keys and tenants are kept")
def again(place):
    status, left = place.server.stop()
    expect((status, left), (0, []), "the status, and what is left")
    order = re.findall(r"^ending (\S+)$", place.server.said(), re.MULTILINE)
    expect(order, [*reversed(place.nodes), "control", "nats", "postgres"], "the order of ends")
    is_so("was killed" not in place.server.said(), "nothing that had to be killed", place.server.said())
    address = place.url.removeprefix("http://")
    command = f"belljar dev --nodes 1 --restart-nodes --listen {address} --data {place.dev}"
    place.server = place.serve("dev-again", command)
    place.server.wait_for("ready", lambda: "export E2B_API_KEY=" in place.server.said())
    is_so(place.key in place.server.said(), "the same key", place.server.said())
    create(place).is_a(201)
    is_so("acme" in admin(place, "tenant list").ends(0).out, "the tenant acme", "none")


@step("kill -9 of the node with --restart-nodes: it comes back")
def restarted(place):
    before = nodes(place)["node-1"]["epoch"]
    os.kill(child(place, "node-1"), signal.SIGKILL)
    place.server.wait_for("a new epoch of node-1", lambda: nodes(place)["node-1"]["epoch"] > before)
    place.server.wait_for("a sandbox on it", lambda: create(place).status == 201)
    status, left = place.server.stop()
    expect((status, left), (0, []), "the status, and what is left")
