# args: FIRST LAST
# NET-18: ports of loopback, interfaces, neighbours, groups; only the gateway may be found.
import socket
import sys

breach = []
open_ports = []
# The control is on the host's network, where no stranger is to be disturbed.
only_ports = int(sys.argv[1]) > 1
for port in range(int(sys.argv[1]), int(sys.argv[2])):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        if s.connect_ex(("127.0.0.1", port)) == 0:
            # A port may by chance connect to itself.
            if s.getsockname() != s.getpeername():
                open_ports.append(port)


# Where calls are told apart by ports, the gateway has one for each.
def is_gateway(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as s:
            s.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            return b"x-belljar-reason" in s.recv(4096)
    except OSError:
        return False


if [port for port in open_ports if port != 3128 and not is_gateway(port)]:
    breach.append(f"ports that listen: {open_ports}")
interfaces = [name for _, name in socket.if_nameindex()]
if interfaces != ["lo"]:
    breach.append(f"interfaces: {interfaces}")
for table in ("arp", "route", "ipv6_route"):
    try:
        with open(f"/proc/net/{table}") as file:
            rows = [line for line in file if "lo" not in line.split()][1:]
    except OSError:
        continue
    if table != "ipv6_route" and rows:
        breach.append(f"{table}: {rows[:3]}")


def group(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(0.5)
        s.sendto(b"\0\0\0\0\0\1\0\0\0\0\0\0\5_http\4_tcp\5local\0\0\x0c\0\1", (address, port))
        return s.recvfrom(4096)


groups = () if only_ports else (("224.0.0.251", 5353), ("239.255.255.250", 1900), ("255.255.255.255", 67))
for address, port in groups:
    try:
        breach.append(f"{address} answered: {group(address, port)[0][:20]!r}")
    except OSError:
        pass
for last in () if only_ports else range(1, 255, 23):
    for net in ("10.0.0", "172.17.0", "192.168.0", "169.254.0"):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
            s.settimeout(0.2)
            if s.connect_ex((f"{net}.{last}", 8080)) == 0:
                breach.append(f"{net}.{last} listens")
if breach:
    print("BREACH", "; ".join(breach), flush=True)
else:
    print("HELD", f"nothing but lo and the gateway's port {open_ports}", flush=True)
