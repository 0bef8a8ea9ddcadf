# A zygote for tests. Forks contexts on request; each serves one socket, which
# is its descriptor 3. Requests come over standard input, a socket as well.
#
#   still          forks a process that never runs again
#   fork           forks a context as it is
#   confine        forks a context in namespaces of its own, without rights
#
# Each answers with the number of the process. A socket comes with the last two.
import array
import ctypes
import os
import signal
import socket
import struct
import sys

for name in sys.argv[1:]:
    __import__(name)

libc = ctypes.CDLL(None, use_errno=True)
control = socket.socket(fileno=os.dup(0))


def serve(sock):
    while True:
        head = sock.recv(4)
        if not head:
            os._exit(0)
        left = int.from_bytes(head, "little")
        body = b""
        while len(body) < left:
            body += sock.recv(left - len(body))
        source = body.decode()
        try:
            try:
                code = compile(source, "request", "eval")
            except SyntaxError:
                code = None
            if code is None:
                exec(source, scope)
                answer = ""
            else:
                answer = repr(eval(code, scope))
        except BaseException as error:
            answer = "error: " + repr(error)
        answer = answer.encode()
        sock.sendall(len(answer).to_bytes(4, "little") + answer)


scope = {"serve": serve}


def context(fd):
    os.dup2(fd, 3)
    os.closerange(4, 256)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    scope["sock"] = socket.socket(fileno=3)
    serve(scope["sock"])


def must(ok, what):
    if not ok:
        os.write(2, f"{what}: errno {ctypes.get_errno()}\n".encode())
        os._exit(1)


# Calls that the host makes and a sandbox may not; the copy must do without.
DENIED = [101, 165, 175, 272, 308, 310, 311, 319, 323, 438]


def confine():
    must(libc.prctl(38, 1, 0, 0, 0) == 0, "no_new_privs")
    # Landlock: neither signals nor abstract sockets cross its edge.
    rules = struct.pack("QQQ", 0, 0, 3)
    ruleset = libc.syscall(444, rules, len(rules), 0)
    must(ruleset >= 0, "landlock_create_ruleset")
    must(libc.syscall(446, ruleset, 0) == 0, "landlock_restrict_self")
    os.close(ruleset)
    program = [struct.pack("HBBI", 0x20, 0, 0, 0)]
    for number in DENIED:
        program.append(struct.pack("HBBI", 0x15, 0, 1, number))
        program.append(struct.pack("HBBI", 0x06, 0, 0, 0x50001))
    program.append(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    )
    must(libc.prctl(4, 0, 0, 0, 0) == 0, "not dumpable")
    must(libc.prctl(22, 2, header, 0, 0) == 0, "seccomp")


def fork_confined(fd):
    # user, mount, uts, ipc, pid and network namespaces
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        must(libc.unshare(0x7C020000 | 0x10000000) == 0, "unshare")
        inner = os.fork()
        if inner == 0:
            confine()
            context(fd)
        os.write(into, str(inner).encode())
        os._exit(0)
    os.close(into)
    answer = os.read(out, 64)
    os.close(out)
    os.waitpid(pid, 0)
    return int(answer or b"0")


signal.signal(signal.SIGCHLD, signal.SIG_DFL)
while True:
    message, ancillary, _, _ = control.recvmsg(64, socket.CMSG_SPACE(4))
    if not message:
        os._exit(0)
    fds = array.array("i")
    for _, _, data in ancillary:
        fds.frombytes(data)
    if message == b"still":
        pid = os.fork()
        if pid == 0:
            libc.prctl(1, signal.SIGKILL, 0, 0, 0)
            os.closerange(0, 256)
            while True:
                signal.pause()
    elif message == b"fork":
        pid = os.fork()
        if pid == 0:
            context(fds[0])
    else:
        pid = fork_confined(fds[0])
    for fd in fds:
        os.close(fd)
    control.send(str(pid).encode())
