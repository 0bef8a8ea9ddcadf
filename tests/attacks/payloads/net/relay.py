# args: PORT
# Passes connections on to the gateway, and stays.
import os
import socket
import sys
import threading

listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
port = os.environ.get("BELLJAR_GATEWAY", "").rpartition(":")[2]
print("relaying", flush=True)
if os.fork():
    os._exit(0)
os.setsid()
null = os.open("/dev/null", os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(null, number)


def pump(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    try:
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass


while True:
    client, _ = listener.accept()
    gateway = socket.create_connection(("127.0.0.1", int(port or 3128)))
    threading.Thread(target=pump, args=(client, gateway), daemon=True).start()
    threading.Thread(target=pump, args=(gateway, client), daemon=True).start()
