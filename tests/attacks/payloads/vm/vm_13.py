# args: none
# VM-13: sockets between machines and their host.
import errno
import socket

breach = []
held = set()
for cid in (0, 1, 2, 3, 4, 5, 100, 0xFFFFFFFF):
    for port in (1, 22, 1024, 5000, 9999):
        try:
            s = socket.socket(40, socket.SOCK_STREAM)
        except OSError as e:
            held.add(f"socket: {errno.errorcode.get(e.errno, e.errno)}")
            continue
        s.settimeout(1)
        try:
            s.connect((cid, port))
            breach.append(f"machine {cid} port {port} answers")
        except OSError as e:
            held.add(errno.errorcode.get(e.errno, str(e)))
        s.close()

if breach:
    print("BREACH", "; ".join(breach), flush=True)
else:
    print("HELD", f"no machine answers: {', '.join(sorted(held))}", flush=True)
