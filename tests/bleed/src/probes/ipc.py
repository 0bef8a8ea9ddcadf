

# System V and POSIX objects.

KEY = 0x62_6C_65_64
CREATE = 0o1666


@probe("ipc")
class sysv_shm:
    def plant(canary):
        libc.shmat.restype = ctypes.c_void_p
        number = checked(libc.shmget(KEY, 4096, CREATE), "shmget")
        where = libc.shmat(number, None, 0)
        ctypes.memmove(where, canary.encode(), len(canary))
        libc.shmdt(ctypes.c_void_p(where))

    def look(canary):
        libc.shmat.restype = ctypes.c_void_p
        for number in [libc.shmget(KEY, 0, 0), *range(64)]:
            where = libc.shmat(number, None, 0o10000) if number >= 0 else None
            if where in (None, ctypes.c_void_p(-1).value):
                continue
            has = canary.encode() in ctypes.string_at(where, 4096)
            libc.shmdt(ctypes.c_void_p(where))
            if has:
                return f"segment {number}"


@probe("ipc")
class sysv_sem:
    """A semaphore can only hold a number: one made of the canary."""

    def value(canary):
        return int(hashlib.sha256(canary.encode()).hexdigest(), 16) % 30_000 + 1

    def plant(canary):
        number = checked(libc.semget(KEY, 1, CREATE), "semget")
        checked(libc.semctl(number, 0, 16, sysv_sem.value(canary)), "semctl")

    def look(canary):
        for number in [libc.semget(KEY, 0, 0), *range(64)]:
            if number >= 0 and libc.semctl(number, 0, 12) == sysv_sem.value(canary):
                return f"semaphore {number}"


@probe("ipc")
class sysv_msg:
    def plant(canary):
        number = checked(libc.msgget(KEY, CREATE), "msgget")
        text = (1).to_bytes(8, "little") + canary.encode()
        checked(libc.msgsnd(number, text, len(canary), 0o4000), "msgsnd")

    def look(canary):
        buffer = ctypes.create_string_buffer(8 + 4096)
        for number in [libc.msgget(KEY, 0), *range(64)]:
            # A message is taken by whoever looks, so it is put back.
            size = libc.msgrcv(number, buffer, 4096, ctypes.c_long(0), 0o4000) if number >= 0 else -1
            if size >= 0:
                libc.msgsnd(number, buffer, size, 0o4000)
                if canary.encode() in buffer.raw:
                    return f"queue {number}"


@probe("ipc")
class posix_shm:
    def plant(canary):
        number = checked(libc.shm_open(b"/bleed", os.O_RDWR | os.O_CREAT, 0o666), "shm_open")
        os.write(number, canary.encode())
        os.close(number)

    def look(canary):
        number = libc.shm_open(b"/bleed", os.O_RDONLY, 0)
        if number < 0:
            return None
        text = os.read(number, 4096)
        os.close(number)
        return "segment" if canary.encode() in text else None


@probe("ipc")
class posix_sem:
    def plant(canary):
        libc.sem_open.restype = ctypes.c_void_p
        if not libc.sem_open(f"/{canary}".encode(), os.O_CREAT, 0o666, 1):
            checked(-1, "sem_open")

    def look(canary):
        libc.sem_open.restype = ctypes.c_void_p
        return "semaphore" if libc.sem_open(f"/{canary}".encode(), 0) else None


@probe("ipc", closed=True)
class posix_mq:
    def plant(canary):
        # Their bytes are limited to none, which the kernel calls EMFILE.
        made = libc.mq_open(b"/bleed", os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666, None)
        number = checked(made, "mq_open", (*REFUSALS, errno.EMFILE))
        checked(libc.mq_send(number, canary.encode(), len(canary), 0), "mq_send")
        os.close(number)

    def look(canary):
        number = libc.mq_open(b"/bleed", os.O_RDWR | os.O_NONBLOCK)
        if number < 0:
            return None
        buffer = ctypes.create_string_buffer(1 << 16)
        size = libc.mq_receive(number, buffer, len(buffer), None)
        if size >= 0:
            libc.mq_send(number, buffer, size, 0)
        os.close(number)
        return "queue" if canary.encode() in buffer.raw else None


@probe("ipc", closed=True)
class keyring:
    ADD, KEYCTL = (248, 250) if os.uname().machine == "x86_64" else (217, 219)

    def plant(canary):
        for ring in (-3, -4, -5):
            text = canary.encode()
            checked(libc.syscall(keyring.ADD, b"user", b"bleed", text, len(text), ring), "add_key")

    def look(canary):
        buffer = ctypes.create_string_buffer(4096)
        for ring in (-1, -2, -3, -4, -5):
            key = libc.syscall(keyring.KEYCTL, 10, ring, b"user", b"bleed", 0)
            if key > 0 and libc.syscall(keyring.KEYCTL, 11, key, buffer, 4096) > 0:
                if canary.encode() in buffer.raw:
                    return f"key of ring {ring}"
