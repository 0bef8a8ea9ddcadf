# args: gzip | lzma | zip | overlap | entries | nested
# FS-10: archives that are small and unpack to much. They are unpacked inside, so the
# sandbox's own disk, inode and time limits are what stops them. The bombs end at
# 256 MiB and 100 000 entries even where nothing stops them.
import gzip
import io
import lzma
import os
import struct
import sys
import time
import zipfile
import zlib

mode = sys.argv[1] if len(sys.argv) > 1 else "gzip"
work = "/tmp/fs10"
most = 256 << 20
deadline = time.monotonic() + 4.5
block = b"\x00" * (1 << 20)
os.makedirs(work, exist_ok=True)


def pour(source, path):
    done = 0
    with open(path, "wb", buffering=0) as target:
        while chunk := source.read(1 << 20):
            # A short write is how a full disk first shows itself.
            at = 0
            while at < len(chunk):
                at += target.write(chunk[at:])
            done += len(chunk)
            if done >= most:
                break
    return done


def bomb(compress):
    return io.BytesIO(compress(block * 64))


class Overlapping:
    """Every central entry points to one local file: a few KiB declare hundreds of MiB.

    Python's own reader refuses that by now, so a naive one stands here: what is under
    test is the sandbox around any extractor, not this extractor.
    """

    def __init__(self):
        self.archive = overlapping()

    def sources(self):
        count, at = struct.unpack_from("<H4xI", self.archive, len(self.archive) - 22 + 10)
        for _ in range(count):
            size, = struct.unpack_from("<I", self.archive, at + 20)
            offset, = struct.unpack_from("<I", self.archive, at + 42)
            at += 47
            data = self.archive[offset + 31 : offset + 31 + size]
            yield io.BytesIO(zlib.decompress(data, -15))


def overlapping():
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = raw.compress(block * 8) + raw.flush()
    crc = zlib.crc32(block * 8)
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, 0, 0, crc, len(data), 8 << 20, 1, 0) + b"k" + data
    count = 64
    central = b"".join(
        struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 8, 0, 0, crc, len(data), 8 << 20, 1, 0, 0, 0, 0, 0, 0) + b"k"
        for _ in range(count)
    )
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(central), len(local), 0)
    return local + central + end


def act():
    done = 0
    if mode in ("gzip", "lzma"):
        compress, opener = (gzip.compress, gzip.open) if mode == "gzip" else (lambda d: lzma.compress(d, preset=0), lzma.open)
        small = bomb(compress)
        print(f"NOTE {len(small.getvalue())} bytes stand for 64 MiB", flush=True)
        for number in range(4):
            small.seek(0)
            done += pour(opener(small), f"{work}/{number}")
        return done, most, "bytes"
    if mode == "overlap":
        bombs = Overlapping()
        print(f"NOTE the archive has {len(bombs.archive)} bytes", flush=True)
        for number, source in enumerate(bombs.sources()):
            done += pour(source, f"{work}/{number}")
            if done >= most:
                break
        return done, most, "bytes"
    if mode == "zip":
        small = io.BytesIO()
        with zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(4):
                archive.writestr(f"{number}", block * 64)
        print(f"NOTE the archive has {len(small.getvalue())} bytes", flush=True)
        with zipfile.ZipFile(small) as archive:
            for number, info in enumerate(archive.infolist()):
                with archive.open(info) as source:
                    done += pour(source, f"{work}/{number}")
                if done >= most:
                    break
        return done, most, "bytes"
    if mode == "entries":
        # 10^5 empty entries; a real bomb has more, the inode limit stops both.
        small = io.BytesIO()
        with zipfile.ZipFile(small, "w") as archive:
            for number in range(20000):
                archive.writestr(zipfile.ZipInfo(f"{number}"), b"")
        with zipfile.ZipFile(small) as archive:
            for copy in range(5):
                os.makedirs(f"{work}/{copy}", exist_ok=True)
                for name in archive.namelist():
                    open(f"{work}/{copy}/{name}", "wb").close()
                    done += 1
                if time.monotonic() > deadline:
                    break
        return done, 100000, "entries"
    # nested: a thousand layers, each one a zip in a zip; the innermost is a bomb.
    inner = gzip.compress(block * 64)
    layers = 1000
    for _ in range(layers):
        wrap = io.BytesIO()
        with zipfile.ZipFile(wrap, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("n", inner)
        inner = wrap.getvalue()
    depth = 0
    while inner[:2] == b"PK" and time.monotonic() < deadline:
        inner = zipfile.ZipFile(io.BytesIO(inner)).read("n")
        depth += 1
    for number in range(4):
        done += pour(gzip.open(io.BytesIO(inner)), f"{work}/{number}")
    print(f"NOTE {depth} layers opened", flush=True)
    return done, most, "bytes"


try:
    done, bound, unit = act()
    if done >= bound:
        print(f"BREACH {mode} unpacked {done} {unit} unhindered")
    else:
        print(f"NOTE unstaged: {mode} only made {done} of {bound} {unit} in time")
        raise SystemExit(2)
except (OSError, MemoryError, zipfile.BadZipFile) as error:
    # Room for the verdict is not needed: it goes to the pipe, not to the disk.
    print(f"HELD {mode} stopped: {getattr(error, 'strerror', None) or type(error).__name__}")
