# args: a port that may listen on ::1
# NET-27: addresses of IPv6 that are near: link-local, unique local, multicast, loopback.
import errno
import socket
import sys

port = int(sys.argv[1])
breach, held = [], set()


def attempt(what, act):
    try:
        act()
        breach.append(what)
    except OSError as error:
        held.add(errno.errorcode.get(error.errno, "timeout"))


def tcp(address, number, scope=0):
    s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    s.settimeout(0.5)
    with s:
        s.connect((address, number, 0, scope))


def udp(address, scope=0):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with s:
        s.sendto(b"net27", (address, 5353, 0, scope))


def raw():
    socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6).close()


for address in ["fe80::1", "fd00::1", "fc00::1", "ff02::1", "ff02::2", "ff05::2", "fec0::1"]:
    for scope in (range(4) if address.startswith("f") else [0]):
        attempt(f"TCP to {address}%{scope}", lambda: tcp(address, 80, scope))
        attempt(f"UDP to {address}%{scope}", lambda: udp(address, scope))
attempt(f"the host's ::1 port {port}", lambda: tcp("::1", port))
attempt("raw ICMPv6", raw)
if breach:
    print("BREACH", "; ".join(breach), flush=True)
else:
    print("HELD", f"nothing near answers: {', '.join(sorted(held))}", flush=True)
