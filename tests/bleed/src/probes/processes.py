

# Processes. Those of another context are hidden even in the same sandbox, where
# interpreters were forked: each of them is in a Landlock domain of its own.

@probe("processes", reach="interpreter")
class command_line:
    def plant(canary):
        KEEP.append(subprocess.Popen(["/bin/sh", "-c", "sleep 900; :", canary]))

    def look(canary):
        return in_every_process("cmdline", canary)


@probe("processes", reach="interpreter")
class environment:
    def plant(canary):
        script = ["/bin/sh", "-c", "echo; exec sleep 900"]
        child = subprocess.Popen(script, env={"BLEED": canary}, stdout=subprocess.PIPE)
        child.stdout.readline()
        KEEP.append(child)

    def look(canary):
        return in_every_process("environ", canary)


def in_every_process(file, canary):
    # Also those that a listing hides.
    numbers = {int(name) for name in os.listdir("/proc") if name.isdigit()} | set(range(1, 400))
    for number in sorted(numbers):
        try:
            with opened(f"/proc/{number}/{file}", "rb") as text:
                if canary.encode() in text.read():
                    return f"process {number}"
        except OSError:
            continue


@probe("processes", reach="interpreter")
class ps:
    def plant(canary):
        KEEP.append(subprocess.Popen(["/bin/sh", "-c", "sleep 900; :", canary]))

    def look(canary):
        try:
            said = subprocess.run(["ps", "axww"], capture_output=True, text=True).stdout
        except FileNotFoundError:
            said = " ".join(
                opened(path, "rb").read().decode(errors="replace") for path in glob.glob("/proc/[0-9]*/cmdline")
            )
        return "ps shows it" if canary in said else None


# Sockets.

SERVER = """
import socket, sys
family, kind, address, canary = int(sys.argv[1]), int(sys.argv[2]), eval(sys.argv[3]), sys.argv[4].encode()
try:
    server = socket.socket(family, kind)
    server.bind(address)
except OSError as error:
    sys.exit(print(error.errno, flush=True))
if kind == socket.SOCK_STREAM:
    server.listen(64)
print(0, flush=True)
while True:
    if kind == socket.SOCK_STREAM:
        peer = server.accept()[0]
        peer.sendall(canary)
        peer.close()
    else:
        _, peer = server.recvfrom(100)
        server.sendto(canary, peer)
"""


def serve(family, kind, address, canary):
    arguments = [str(int(family)), str(int(kind)), repr(address), canary]
    server = subprocess.Popen([sys.executable, "-c", SERVER, *arguments], stdout=subprocess.PIPE)
    number = int(server.stdout.readline() or errno.ECHILD)
    if number in (*REFUSALS, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
        raise Closed(f"bind: {errno.errorcode[number]}")
    if number:
        raise OSError(number, "serve")
    KEEP.append(server)


def ask(family, kind, address):
    client = socket.socket(family, kind)
    client.settimeout(1)
    try:
        client.connect(address)
        if kind == socket.SOCK_DGRAM:
            client.send(b"?")
        return client.recv(1000).decode()
    except OSError:
        return ""
    finally:
        client.close()


def server(name, family, kind, address, closed=False):
    def find(canary):
        return f"{address} answers" if canary in ask(family, kind, address) else None

    members = dict(
        plant=staticmethod(lambda canary: serve(family, kind, address, canary)),
        look=staticmethod(find),
    )
    probe("sockets", closed=closed)(type(name, (), members))


server("unix_abstract", socket.AF_UNIX, socket.SOCK_STREAM, "\0bleed")
server("unix_path", socket.AF_UNIX, socket.SOCK_STREAM, "/tmp/bleed.socket")
server("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 47001))
server("tcp_any", socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 47002))
server("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 47003), closed=True)
server("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 47004), closed=True)


@probe("sockets")
class port_in_use:
    """A port tells of its owner by being taken. The canary is the port."""

    def port(canary):
        return 20_000 + int(hashlib.sha256(canary.encode()).hexdigest(), 16) % 20_000

    def plant(canary):
        serve(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port_in_use.port(canary)), canary)

    def look(canary):
        try:
            socket.create_server(("127.0.0.1", port_in_use.port(canary))).close()
        except OSError as error:
            return error


@probe("sockets")
class listing:
    """Ports and names of everyone in /proc/net."""

    def plant(canary):
        serve(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{canary}", canary)

    def look(canary):
        code = "import glob; print([open(p).read() for p in glob.glob('/proc/net/*') if p.endswith('unix')])"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        if canary in said:
            return "/proc/net/unix"
        return "it answers" if canary in ask(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{canary}") else None
