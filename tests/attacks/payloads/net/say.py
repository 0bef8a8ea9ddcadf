# args: FILE
# Says to sockets what a script says, byte by byte, and prints what came back. The file is JSON:
# {"side_by_side": true, "scripts": [{"name": "...", "steps": [["connect", "127.0.0.1", 3128],
# ["send", "GET ...", 1], ["head"]]}]}. Texts are Latin-1: one character is one byte.
import hashlib
import json
import os
import socket
import ssl
import sys
import threading
import time

KEPT = 65536


class Talk:
    def __init__(self):
        self.got, self.total, self.closed, self.socket = b"", 0, False, None
        self.digest = None

    def take(self, data):
        self.total += len(data)
        self.got += data[: max(0, KEPT - len(self.got))]
        if not data:
            self.closed = True
        return data

    # Where the gateway listens for this call.
    def gateway(self, port):
        known = os.environ.get("BELLJAR_GATEWAY", "").rpartition(":")[2]
        self.connect("127.0.0.1", int(known or port))

    def connect(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=8)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, text, times=1):
        piece = text.encode("latin-1")
        while times > 0:
            many = min(times, max(1, 65536 // max(1, len(piece))))
            self.socket.sendall(piece * many)
            times -= many

    # In so many pieces, each a segment of its own.
    def pieces(self, text, count, pause=0.01):
        data = text.encode("latin-1")
        size = max(1, len(data) // count)
        for at in range(0, len(data), size):
            self.socket.sendall(data[at : at + size])
            time.sleep(pause)

    # TLS that believes anything; its greeting in so many pieces.
    def tls(self, name, count=1):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])
        if count == 1:
            self.socket = context.wrap_socket(self.socket, server_hostname=name)
            return
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        inner = context.wrap_bio(incoming, outgoing, server_hostname=name)
        plain = self.socket
        while True:
            try:
                inner.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.pieces(outgoing.read().decode("latin-1"), count)
                count = 1
                data = plain.recv(65536)
                if not data:
                    raise OSError("the end in the middle of a greeting")
                incoming.write(data)
        plain.sendall(outgoing.read())

        class Both:
            def settimeout(self, seconds):
                plain.settimeout(seconds)

            def sendall(self, data):
                inner.write(data)
                plain.sendall(outgoing.read())

            def recv(self, size):
                while True:
                    try:
                        return inner.read(size)
                    except ssl.SSLWantReadError:
                        data = plain.recv(65536)
                        if not data:
                            return b""
                        incoming.write(data)

        self.socket = Both()

    # One answer: a head, and the body that it promises.
    def head(self, seconds=8):
        self.socket.settimeout(seconds)
        data, self.digest = b"", None
        while b"\r\n\r\n" not in data:
            more = self.take(self.socket.recv(65536))
            if not more:
                return
            data += more
        head, body = data.split(b"\r\n\r\n", 1)
        fields = head.lower().split(b"\r\n")
        lengths = [int(f.split(b":")[1]) for f in fields if f.startswith(b"content-length:")]
        chunked = any(f.startswith(b"transfer-encoding:") for f in fields)
        while (lengths and len(body) < lengths[0]) or (chunked and not body.endswith(b"0\r\n\r\n")):
            more = self.take(self.socket.recv(65536))
            if not more:
                return
            body += more
        if lengths:
            self.digest = hashlib.sha256(body).hexdigest()

    # So many bytes.
    def exactly(self, count):
        self.socket.settimeout(8)
        while count > 0:
            data = self.take(self.socket.recv(count))
            if not data:
                return
            count -= len(data)

    # Everything until the end, or for so long; or until one of these texts has come.
    def rest(self, seconds=3, texts=()):
        until = time.monotonic() + seconds
        texts = [text.encode("latin-1") for text in texts]
        while not self.closed and time.monotonic() < until:
            if any(text in self.got for text in texts):
                return
            self.socket.settimeout(max(0.01, until - time.monotonic()))
            try:
                self.take(self.socket.recv(65536))
            except (TimeoutError, socket.timeout):
                return
            except OSError:
                self.closed = True

    def sleep(self, seconds):
        time.sleep(seconds)

    # Says that it has come so far.
    def mark(self, text):
        print("MARK", text, flush=True)


def perform(script):
    talk, error, begin = Talk(), None, time.monotonic()
    for step, *args in script["steps"]:
        try:
            getattr(talk, step)(*args)
        except (OSError, ValueError) as e:
            error = f"{step}: {type(e).__name__}: {e}"
            break
    said = {"name": script["name"], "got": talk.got.decode("latin-1"), "total": talk.total}
    said.update(closed=talk.closed, error=error, ms=int(1000 * (time.monotonic() - begin)))
    said["digest"] = talk.digest
    print("SAID", json.dumps(said), flush=True)


with open(sys.argv[1], encoding="utf-8") as file:
    wanted = json.load(file)
if wanted["side_by_side"]:
    threads = [threading.Thread(target=perform, args=(s,)) for s in wanted["scripts"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
else:
    for script in wanted["scripts"]:
        perform(script)
