"""User A, with E2B's SDK: `belljar serve`, unmodified programs, packages, templates, TLS."""

import re
import textwrap

from place import ask, remove_templates
from ports import free_port
from script import expect, is_so

STEPS = []


def step(words):
    def add(act):
        STEPS.append((words, act))
        return act

    return add


def follow(script):
    """Takes these steps after those of another script."""
    script.steps += STEPS


def sdk(place, name, code):
    """A program of the user's own: `box` is a sandbox, and what it prints is what is looked at."""
    begin = "from e2b_code_interpreter import AsyncSandbox, Sandbox\nfrom e2b import Template\n"
    return place.python_says(f"{name}.py", begin + textwrap.dedent(code))


NAMED = '''
import http.client, os, socket, ssl, time
from e2b_code_interpreter import Sandbox
box = Sandbox.create(timeout=600)
print(box.commands.run("echo hello").stdout.strip())
box.commands.run("echo inside > index.html; exec python3 -m http.server 8000", background=True, timeout=0)
name, _, port = box.get_host(8000).partition(":")
# Not every system knows names below `localhost`: the address is known, and the name is for TLS.
context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
for _ in range(100):
    with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as plain:
        with context.wrap_socket(plain, server_hostname=name) as stream:
            stream.sendall(f"GET /index.html HTTP/1.1\\r\\nHost: {name}:{port}\\r\\nConnection: close\\r\\n\\r\\n".encode())
            answer = http.client.HTTPResponse(stream)
            answer.begin()
            body = answer.read().decode().strip()
    if answer.status == 200:
        break
    time.sleep(0.1)
print(answer.status, body)
box.kill()
'''

WITH_BOX = "box = Sandbox.create(timeout=600)\n"


@step("belljar serve; eval \"$(belljar env --key …)\"")
def serve(place):
    place.address = f"127.0.0.1:{free_port()}"
    command = f"belljar serve --listen {place.address} --network packages {place.gateway}"
    place.server = place.serve("serve", command)
    key = place.server.wait_for("a key", lambda: re.search(r"e2b_[0-9a-f]{40}", place.server.said()))[0]
    place.server.wait_for("an answer", lambda: ask("GET", f"http://{place.address}/v1/health").status == 200)
    exports = place.sh(f"belljar env --url http://{place.address} --key {key}").ends(0)
    names = sorted(re.findall(r"^export (\w+)='", exports.out, re.MULTILINE))
    expect(names, ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"], "variables")
    set_now = place.sh(f"set -a; {exports.out}\nenv -0").ends(0).out.split("\0")
    place.environment |= dict(entry.split("=", 1) for entry in set_now if entry.startswith("E2B_"))
    place.at_the_end.append(lambda: remove_templates(f"http://{place.address}", key))


@step("a fork of a sandbox that was made before the server was warm")
def early_fork(place):
    ran = sdk(place, "early", """
        box = Sandbox.create(timeout=600)
        box.run_code("x = 41")
        [fork] = box.fork(count=1, timeout=60)
        print(Sandbox.connect(fork.sandbox_id).run_code("x + 1").text)
        fork.kill(); box.kill()
    """)  # fmt: skip
    ran.prints("42\n")
    ready = f"http://{place.address}/v1/ready"
    place.server.wait_for("200 from /v1/ready", lambda: ask("GET", ready).status == 200)


@step("python examples/e2b/python/hello.py; node examples/e2b/javascript/hello.mjs")
def hello(place):
    wanted = (place.work / "examples" / "e2b" / "expected" / "hello.txt").read_text()
    place.sh("python examples/e2b/python/hello.py").ends(0).prints(wanted)
    (place.work / "node_modules").symlink_to(place.modules)
    place.sh("node examples/e2b/javascript/hello.mjs").ends(0).prints(wanted)


@step("run_code: streaming, a chart and its data, a DataFrame, JavaScript, Bash, R")
def cells(place):
    ran = sdk(place, "cells", WITH_BOX + '''
seen = []
box.run_code("print('one', flush=True)\\nprint('two')", on_stdout=lambda message: seen.append(message.line))
print("".join(seen).split())
code = "import matplotlib.pyplot as plt\\nplt.plot([1, 2], [1, 4], label='squares')\\nplt.title('Growth')\\nplt.show()"
[result] = [result for result in box.run_code(code).results if result.png]
print(result.chart.title, [line.label for line in result.chart.elements])
frame = box.run_code("import pandas as pd\\npd.DataFrame({'a': [1, 2]})").results[0]
print(frame.data, "<table" in frame.html)
print(box.run_code("const n = 6; n * 7", language="javascript").text)
print("".join(box.run_code("echo $((40 + 2))", language="bash").logs.stdout).strip())
print("".join(box.run_code("cat(6 * 7)", language="r").logs.stdout).strip())
box.kill()
''')  # fmt: skip
    ran.prints("['one', 'two']\nGrowth ['squares']\n{'a': [1, 2]} True\n42\n42\n42\n")


@step("files of 50 MB, a process in the background, watch, pause and resume")
def files(place):
    ran = sdk(place, "files", WITH_BOX + '''
box.files.write("/home/user/big", b"x" * 50_000_000)
print(len(box.files.read("/home/user/big", format="bytes")))
handle = box.commands.run("sleep 1000", background=True, timeout=0)
print(any(handle.pid == process.pid for process in box.commands.list()))
watcher = box.files.watch_dir("/home/user")
box.files.write("/home/user/new.txt", "new")
found = []
for _ in range(100):
    found += [event.name for event in watcher.get_new_events()]
    if "new.txt" in found:
        break
    box.commands.run("sleep 0.1")
print("new.txt" in found)
box.run_code("kept = 7")
box.pause()
again = Sandbox.connect(box.sandbox_id)
print(again.run_code("kept").text, again.files.read("/home/user/new.txt"))
again.kill()
''')  # fmt: skip
    ran.prints("50000000\nTrue\nTrue\n7 new\n")


@step("eight sandboxes at once, a sum with pandas in each")
def eight(place):
    ran = sdk(place, "eight", '''
        import asyncio
        async def one(number):
            box = await AsyncSandbox.create(timeout=600)
            result = await box.run_code(f"import pandas as pd; int(pd.Series(range({number})).sum())")
            await box.kill()
            return result.text
        async def all_of_them():
            return await asyncio.gather(*(one(number) for number in range(10, 18)))
        print(asyncio.run(all_of_them()))
    ''')  # fmt: skip
    expect(ran.out.strip(), str([str(sum(range(number))) for number in range(10, 18)]), "the sums")


@step("commands.run('pip install X'), !pip, %pip, then import X: the same context and a new one")
def pip(place):
    ran = sdk(place, "pip", WITH_BOX + '''
box.run_code("1")
box.commands.run("pip install humanize", timeout=0)
print(box.run_code("import humanize; humanize.intcomma(12345)").text)
box.run_code("!pip install idna")
print(box.run_code("import idna; idna.encode('bücher.example').decode()").text)
box.run_code("%pip install inflection")
context = box.create_code_context(language="python")
print(box.run_code("import inflection; inflection.underscore('OneTwo')", context=context).text)
box.kill()
''')  # fmt: skip
    ran.prints("12,345\nxn--bcher-kva.example\none_two\n")


@step("npm install, then import in a JavaScript cell")
def npm(place):
    ran = sdk(place, "npm", WITH_BOX + '''
box.run_code("1", language="javascript")
box.commands.run("npm install is-number", timeout=0)
print(box.run_code("const isNumber = require('is-number'); isNumber(5)", language="javascript").text)
box.kill()
''')  # fmt: skip
    ran.prints("true\n")


@step("get_host(8000) without a domain: never a foreign name, and it leads to the server inside")
def host(place):
    ran = sdk(place, "host", WITH_BOX + '''
import http.client, os, time, urllib.parse
box.commands.run("echo inside > index.html; exec python3 -m http.server 8000", background=True, timeout=0)
host = box.get_host(8000)
print(host.partition("-")[2].partition(".")[2])
server = urllib.parse.urlsplit(os.environ["E2B_SANDBOX_URL"])
for _ in range(100):
    connection = http.client.HTTPConnection(server.netloc, timeout=60)
    connection.request("GET", "/index.html", headers={"Host": host})
    answer = connection.getresponse()
    if answer.status == 200:
        break
    time.sleep(0.1)
print(answer.status, answer.read().decode().strip())
box.kill()
''')  # fmt: skip
    domain, answered = ran.lines()
    is_so(domain.startswith("localhost") and "e2b.app" not in domain, "a domain of this host", domain)
    expect(answered, "200 inside", "the server inside")


@step("psutil.virtual_memory(), free, os.cpu_count(): the sandbox's own limits")
def figures(place):
    ran = sdk(place, "figures", WITH_BOX + '''
box.commands.run("pip install psutil", timeout=0)
print(box.run_code("import psutil; psutil.virtual_memory().total >> 20").text)
print(box.commands.run("free -m | awk '/Mem:/ {print $2}'").stdout.strip())
print(int(box.run_code("import os; os.cpu_count()").text) >= 1, bool(box.commands.run("cat /proc/uptime").stdout))
box.kill()
''')  # fmt: skip
    # The template's limit of memory.
    ran.prints("2048\n2048\nTrue True\n")


@step("mkdir /workspace as the user and as root; a file written there; useradd as root")
def root(place):
    ran = sdk(place, "root", WITH_BOX + '''
print(box.files.make_dir("/workspace"), box.commands.run("touch /workspace/mine && echo done").stdout.strip())
print(box.commands.run("mkdir /srv2 && chown user /srv2 && stat -c %U /srv2", user="root").stdout.strip())
print(box.commands.run("useradd --create-home ann && su ann -c 'id -un'", user="root").stdout.strip())
box.kill()
''')  # fmt: skip
    ran.prints("True done\nuser\nann\n")


@step("Template.build with pip_install, apt_install and npm_install")
def build(place):
    ran = sdk(place, "build", '''
        template = Template().from_template("base").pip_install(["humanize"]).apt_install(["tree"])
        template = template.npm_install(["is-number"], g=True)
        info = Template.build(template, "tryout-tools", on_build_logs=lambda entry: None)
        box = Sandbox.create(info.name, timeout=600)
        print(box.commands.run("python3 -c 'import humanize; print(humanize.intcomma(12345))'").stdout.strip())
        print(box.commands.run("tree --version | cut -d' ' -f1").stdout.strip())
        print("is-number" in box.commands.run("npm ls --global").stdout)
        box.kill()
    ''')  # fmt: skip
    ran.prints("12,345\ntree\nTrue\n")


@step("Template().from_image('python:3.9'): no other Python is built instead")
def image(place):
    ran = sdk(place, "image", '''
        from e2b.exceptions import BuildException
        said = []
        try:
            info = Template.build(Template().from_image("python:3.9"), "tryout-image",
                                  on_build_logs=lambda entry: said.append(entry.message))
            box = Sandbox.create(info.name)
            print("built, with", box.commands.run("python3 --version").stdout.strip())
            box.kill()
        except BuildException as error:
            print("refused:", error, *said)
    ''')  # fmt: skip
    is_so("refused:" in ran.out and "python:3.9" in ran.out or "3.9." in ran.out, "Python 3.9, or a refusal", ran.out)


@step("tls init, serve --tls-listen --domain, belljar env --domain: a bundle, and a name that is reached")
def tls(place):
    port = free_port()
    domain = f"sb.localhost:{port}"
    data = place.folder / "tls-data"
    place.sh(f"belljar tls init --domain sb.localhost --data {data}").ends(0)
    command = f"belljar serve --listen 127.0.0.1:{free_port()} --tls-listen 127.0.0.1:{port} --domain {domain} --data {data}"
    server = place.serve("tls", command)
    key = server.wait_for("a key", lambda: re.search(r"e2b_[0-9a-f]{40}", server.said()))[0]
    server.wait_for("warm templates", lambda: "ready: warm" in server.said())
    env = f"belljar env --domain {domain} --key {key}"
    place.sh(f"{env} --data {place.folder / 'nothing'}").ends(1).prints("").says("cannot read the authority", "--data")
    exports = place.sh(f"{env} --data {data}").ends(0).out
    bundle = re.search(r"SSL_CERT_FILE='(.*)'", exports)[1]
    count = place.sh(f"grep -c BEGIN {bundle}").ends(0).out
    is_so(int(count) > 10, "the system's authorities and the server's in SSL_CERT_FILE", f"{count} certificates")
    place.write("named.py", NAMED)
    clean = "unset E2B_API_URL E2B_SANDBOX_URL E2B_VOLUME_API_URL; "
    place.sh(f"{clean}{exports}\npython named.py").ends(0).prints("hello\n200 inside\n")
    status, left = server.stop()
    expect((status, left), (0, []), "the end of the server")


@step("/docs of the server: its own address, search, examples of bodies, each error once")
def docs(place):
    look_at_docs(f"http://{place.address}")


def look_at_docs(url):
    page = ask("GET", f"{url}/docs").is_a(200).text
    expect(set(re.findall(r"(https?://[^/\s\"'<&]+)/v1/", page)), {url}, "the addresses of its examples")
    is_so('id="search"' in page, "a field for a search", "none")
    is_so("-d '{" in page or "-d &#39;{" in page, "examples with a body", "none")
    meaning = "The key is missing or invalid."
    expect(page.count(meaning), 1, "how often the meaning of 401 is said")
    targets = set(re.findall(r'href="#([^"]+)"', page))
    missing = sorted(target for target in targets if f'id="{target}"' not in page)
    expect(missing, [], "links within the page that lead nowhere")


@step("Ctrl-C of the server: everything of it ends")
def end(place):
    remove_templates(f"http://{place.address}", place.environment["E2B_API_KEY"])
    status, left = place.server.stop()
    expect((status, left), (0, []), "the server's status, and what it left behind")
