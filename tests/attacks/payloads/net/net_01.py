# args: WEB DNS-PORT [PLACE]...
# NET-01: TCP, UDP, ICMP, raw and SCTP sockets straight to a server, a name server and other places.
import os
import socket
import struct
import sys

breach, held = [], set()
host, port = sys.argv[1].rsplit(":", 1)
name_server = ("127.0.0.1", int(sys.argv[2]))
places = [(h, int(p)) for h, p in (place.rsplit(":", 1) for place in sys.argv[3:])]
question = struct.pack(">6H", 7, 256, 1, 0, 0, 0) + b"\4data\4evil\4test\0" + struct.pack(">2H", 1, 1)


def attempt(what, act):
    try:
        answer = act()
    except OSError as e:
        held.add(f"{what}: {os.strerror(e.errno) if e.errno else e}")
    else:
        breach.append(f"{what} worked: {answer!r}")


def tcp(place, family=socket.AF_INET, protocol=0):
    with socket.socket(family, socket.SOCK_STREAM, protocol) as s:
        s.settimeout(1)
        s.connect(place)
        s.sendall(b"GET /hello HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return s.recv(4096)[:40]


def udp(place):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.connect(place)
        s.send(question)
        return s.recv(4096)[:40]


def icmp(kind, place):
    with socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP) as s:
        s.settimeout(1)
        s.sendto(b"\x08\x00\xf7\xff\x00\x00\x00\x00", place)
        return s.recvfrom(4096)[0][:40]


attempt("tcp to the server", lambda: tcp((host, int(port))))
attempt("udp to the name server", lambda: udp(name_server))
for place in places:
    attempt("tcp", lambda: tcp(place))
    attempt("udp", lambda: udp(place))
    attempt("icmp", lambda: icmp(socket.SOCK_DGRAM, place))
    attempt("raw", lambda: icmp(socket.SOCK_RAW, place))
    attempt("sctp", lambda: tcp(place, protocol=132))
if places:
    attempt("tcp over IPv6", lambda: tcp(("2001:db8::1", 443, 0, 0), socket.AF_INET6))
    attempt("packets", lambda: socket.socket(17, socket.SOCK_RAW, 768))
    attempt("raw IP", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255))
    attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, 1024)))
    attempt("a look-up", lambda: socket.getaddrinfo("data.evil.test", 80))

print("BREACH" if breach else "HELD", "; ".join(breach or sorted(held)), flush=True)
