# args: <file with a certificate of an authority>
# NET-29: which authority vouches for a host whose TLS the gateway ends.
import socket
import ssl
import sys

with open(sys.argv[1]) as file:
    text = file.read()
if "PRIVATE KEY" in text:
    print("BREACH the key of the authority is inside", flush=True)
    raise SystemExit
context = ssl.create_default_context(cafile=sys.argv[1])
s = socket.create_connection(("127.0.0.1", 3128), timeout=10)
s.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\nhost: allowed.test:443\r\n\r\n")
head = b""
while b"\r\n\r\n" not in head:
    more = s.recv(4096)
    if not more:
        break
    head += more
if b" 200 " not in head:
    print("NOTE unstaged: no tunnel:", head[:80])
    raise SystemExit
try:
    with context.wrap_socket(s, server_hostname="allowed.test") as tls:
        tls.sendall(b"GET /hello HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\n\r\n")
        print("BREACH it vouches for the host:", tls.recv(64)[:15], flush=True)
except ssl.SSLCertVerificationError as error:
    print("HELD", error.verify_message, flush=True)
