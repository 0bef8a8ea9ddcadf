# args: none
# FS-08: hostile tar archives, built and unpacked inside, by Python and by tar. They may
# do what uid 1000 may do anyway, and nothing more.
import hashlib
import io
import os
import shutil
import stat
import subprocess
import tarfile

work = "/tmp/fs08"
forbidden = ["/etc/fs08", "/usr/bin/fs08", "/usr/lib/fs08", "/proc/fs08", "/dev/fs08"]
if not os.stat("/").st_mode & 0o1000:
    # Where the sandbox has a root of its own, / is like /tmp.
    forbidden.append("/fs08")
watched = ["/etc/passwd", "/etc/hostname", "/bin/sh", "/usr/bin/env"]
held, breached = [], []


def digest(path):
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        return type(error).__name__


def entry(name, kind=tarfile.REGTYPE, data=b"fs08\n", **fields):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = 0o644
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def archive(name, *entries):
    path = f"{work}/{name}.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if info.size else None)
    return path


def absolute_and_parent():
    yield "absolute", [entry(path) for path in forbidden]
    yield "parent", [entry("../" * 12 + path.lstrip("/")) for path in forbidden]


def links():
    for number, (where, name) in enumerate([("/etc", "fs08"), ("/usr/bin", "fs08"), ("/", "fs08")]):
        yield f"symlink-{number}", [
            entry("out", tarfile.SYMTYPE, linkname=where),
            entry(f"out/{name}"),
        ]
    yield "hardlink", [entry("hard", tarfile.LNKTYPE, linkname="/etc/passwd"), entry("hard", data=b"x::0:0:::\n")]
    yield "overwrite", [entry("pw", tarfile.SYMTYPE, linkname="/etc/passwd"), entry("pw", data=b"x::0:0:::\n")]


def specials():
    yield "devices", [
        entry("zero", tarfile.CHRTYPE, devmajor=1, devminor=5),
        entry("disk", tarfile.BLKTYPE, devmajor=8, devminor=0),
    ]
    yield "setuid", [entry("suid", mode=0o6755, uid=0, gid=0, uname="root", gname="root")]
    yield "xattr", [entry("caps", pax_headers={"SCHILY.xattr.security.capability": "\x01\x00\x00\x02"})]
    yield "twice", [entry("same", data=b"first\n"), entry("same", tarfile.SYMTYPE, linkname="/etc/passwd"), entry("same", data=b"last\n")]


def broken_sizes(path):
    # tarfile refuses to write such numbers, so a good header is patched and resummed.
    good = bytearray(entry("size")[0].tobuf(tarfile.USTAR_FORMAT))
    for name, field in [("negative", b"\xff" * 12), ("huge", b"\x80" + b"\x00" * 3 + b"\x7f" + b"\xff" * 7), ("text", b"zzzzzzzzzzz\x00")]:
        block = bytearray(good)
        block[124:136] = field
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\x00 " % sum(block)
        with open(f"{path}/size-{name}.tar", "wb") as file:
            file.write(bytes(block) + b"\x00" * 2048)
        yield f"{path}/size-{name}.tar"


def unpack_python(path, into):
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                try:
                    tar.extract(member, into)
                except Exception as error:  # each member is an attack of its own
                    held.append(f"{os.path.basename(path)} {type(error).__name__}")
    except Exception as error:
        held.append(f"{os.path.basename(path)} {type(error).__name__}")


def unpack_tar(path, into):
    # -P keeps absolute names and links: the most dangerous way to call it.
    command = ["tar", "-xPf", path, "-C", into, "--same-owner", "--xattrs"]
    try:
        subprocess.run(command, timeout=3, stderr=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        held.append(f"tar {type(error).__name__}")


def judge(label, into, before):
    # What one archive did is not counted against the next: `before` moves along.
    for path in forbidden:
        if os.path.lexists(path) and path not in before:
            breached.append(f"{label} made {path}")
            before[path] = True
    for path in watched:
        if digest(path) != before[path]:
            breached.append(f"{label} changed {path}")
            before[path] = digest(path)
    for top, folders, files in os.walk(into):
        for name in files + folders:
            info = os.lstat(os.path.join(top, name))
            if stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
                breached.append(f"{label} made the device {name}")
            if info.st_uid != os.getuid():
                breached.append(f"{label} made {name} of uid {info.st_uid}")
            try:
                os.getxattr(os.path.join(top, name), "security.capability", follow_symlinks=False)
                breached.append(f"{label} gave {name} a capability")
            except OSError:
                pass


def main():
    if os.getuid() == 0:
        # Root of the sandbox owns the base's files, so a change of them proves nothing.
        print("NOTE unstaged: run as uid 1000")
        return 2
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    before = {path: digest(path) for path in watched}
    archives = [archive(name, *list_) for group in (absolute_and_parent, links, specials) for name, list_ in group()]
    archives += list(broken_sizes(work))
    unpackers = [("python", unpack_python)] + ([("tar", unpack_tar)] if shutil.which("tar") else [])
    for path in archives:
        for tool, unpack in unpackers:
            label = f"{tool}:{os.path.basename(path)}"
            into = f"{work}/{label}.d"
            os.makedirs(into)
            unpack(path, into)
            judge(label, into, before)
    tools = " and ".join(tool for tool, _ in unpackers)
    if breached:
        print("BREACH " + "; ".join(breached))
    else:
        print(f"HELD {len(archives)} archives by {tools} touched nothing outside; {len(held)} members refused")
    return 0


raise SystemExit(main())
