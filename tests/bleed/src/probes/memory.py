

# Memory: everything that this process can read of itself.

MARK = bytes(byte ^ 0x5A for byte in bytes.fromhex("1810170b60"))


def scan(digest):
    """Looks for a mark and 32 digits whose digest is given. The mark alone is
    everywhere in whoever looks; the digits are nowhere unless they leaked."""
    pattern = re.compile(re.escape(MARK) + rb"([0-9a-f]{32})")
    seen = 0
    with opened("/proc/self/maps") as file:
        areas = [line.split(maxsplit=5) for line in file]
    with opened("/proc/self/mem", "rb", buffering=0) as memory:
        for area in areas:
            start, end = (int(part, 16) for part in area[0].split("-"))
            if area[1][0] != "r" or (len(area) > 5 and area[5].strip() in ("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                continue
            at, tail = start, b""
            while at < end:
                try:
                    memory.seek(at)
                    chunk = memory.read(min(1 << 20, end - at))
                except OSError:
                    break
                if not chunk:
                    break
                seen += len(chunk)
                for match in pattern.finditer(tail + chunk):
                    if hashlib.sha256(match[1]).hexdigest() == digest:
                        return f"at {at:#x} in {area[5].strip() if len(area) > 5 else 'memory'}"
                tail = chunk[-64:]
                at += len(chunk)
    if seen < 1 << 20:
        raise OSError(f"only {seen} bytes could be read")


@probe("memory", reach="interpreter", copied=True, kind="memory")
class other_session:
    def plant(canary):
        KEEP.append([bytearray(MARK + canary.encode() + b"%d" % copy) for copy in range(64)])

    def look(digest):
        return scan(digest)


@probe("memory", reach="interpreter", kind="memory", specific=False)
class engine_environment(other_session):
    pass


@probe("memory", reach="interpreter", kind="memory", specific=False)
class engine_heap(other_session):
    pass


@probe("memory", reach="interpreter", kind="memory", specific=False)
class engine_arguments(other_session):
    pass


@probe("memory", reach="interpreter", copied=False)
class fresh_memory:
    """What the kernel hands out is empty: 256 MiB are asked for and read."""

    def plant(canary):
        KEEP.append(bytearray(canary.encode() * (32 << 20 >> 5)))

    def look(canary):
        import mmap

        if any(isinstance(kept, bytearray) and canary.encode() in kept for kept in KEEP):
            return "own memory"
        with mmap.mmap(-1, 256 << 20) as area:
            return "fresh memory" if area.find(canary.encode()) >= 0 else None
