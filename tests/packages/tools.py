"""Programs that are told nothing: each must find the way out by its environment."""

from suite import expect
from world import HELLO, NAME

FETCHED = "fetched: "

# What each is asked to do with a URL, and the process that must have done it.
TOOLS = {
    "curl": ("curl", ["sh", "-c", f'printf "{FETCHED}" && curl -sSf "$1/hello"', "sh"]),
    "git": (
        "git-remote-http",
        ["sh", "-c", f'git clone -q "$1/git/hello.git" /tmp/it && printf "{FETCHED}" && cat /tmp/it/hello', "sh"],
    ),
    "python-urllib": (
        "python3",
        [
            "python3",
            "-c",
            "import sys, urllib.request as r;"
            f"print('{FETCHED}' + r.urlopen(sys.argv[1] + '/hello', timeout=20).read().decode())",
        ],
    ),
    "python-requests": (
        "python3",
        [
            "python3",
            "-c",
            "import requests, sys; answer = requests.get(sys.argv[1] + '/hello', timeout=20);"
            f"answer.raise_for_status(); print('{FETCHED}' + answer.text)",
        ],
    ),
    "node-fetch": (
        "node",
        [
            "node",
            "-e",
            "fetch(process.argv[1] + '/hello').then(async (answer) => {"
            "  if (!answer.ok) throw new Error(answer.headers.get('x-belljar-reason'));"
            f"  console.log('{FETCHED}' + await answer.text());"
            "})",
        ],
    ),
    "node-http": (
        "node",
        [
            "node",
            "-e",
            "const url = process.argv[1] + '/hello';"
            "const { Agent, get } = require(url.split(':')[0]);"
            "const ask = (options, then) => get(url, options, (answer) => {"
            "  if (answer.statusCode !== 200) throw new Error(answer.headers['x-belljar-reason']);"
            "  answer.setEncoding('utf8').on('data', then);"
            "});"
            # The default agent, and one of the program's own.
            f"ask({{}}, () => ask({{ agent: new Agent() }}, (text) => console.log('{FETCHED}' + text)));",
        ],
    ),
}


def check(suite, world, name):
    """Out without TLS, out with TLS that is read, and not out."""
    process, command = TOOLS[name]
    plain, secure = f"http://{NAME}:{world.http}", f"https://{NAME}:{world.https}"
    wanted = FETCHED + HELLO

    def ask(stage, url, *network):
        return suite.belljar(f"{name}-{stage}", network, [*command, url], suite.options.template, world.settings)

    for stage, url, port, network in (
        ("plain", plain, world.http, []),
        ("read", secure, world.https, ["--record", f"tools-{name}"]),
    ):
        status, said, rows = ask(stage, url, "--allow", f"{NAME}:{port}", *network)
        expect(status == 0 and wanted in said, f"{name}: {stage}: ended with {status}\n{said}", rows)
        out = [row for row in rows if row["decision"] == "allowed" and row.get("address")]
        expect(out, f"{name}: {stage}: no row says that it went out", rows)
        # Programs that git is started by are git as well.
        strangers = [row for row in out if not process.startswith(row["process"]["name"])]
        expect(not strangers, f"{name}: {stage}: not of {process}", strangers)
        read = [row for row in rows if (row["kind"], row["reason"]) == ("exchange", "recorded")]
        expect(bool(read) == bool(network), f"{name}: {stage}: the wrong things were read", rows)

    status, said, rows = ask("refused", plain, "--allow", "elsewhere.example")
    expect(status != 0 and wanted not in said, f"{name}: was not refused\n{said}", rows)
    denied = [row["reason"] for row in rows if row["decision"] == "denied"]
    expect(set(denied) == {"not_allowed"}, f"{name}: no row says that it was refused", rows)
    print(f"{name}: goes out by itself, with TLS and without, and not where it may not")
