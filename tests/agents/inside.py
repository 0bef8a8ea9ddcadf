"""Looks into a sandbox from the host: processes, memory, environments, files, and what its network stack counted."""

import array
import contextlib
import os
import pathlib
import stat

PAGE = os.sysconf("SC_PAGE_SIZE")
# Of one line of a page map; see the kernel's admin-guide/mm/pagemap.
PRESENT, SWAPPED = 1 << 63, 1 << 62
STRIDE = 1 << 16  # pages that are looked up at once


def descendants(root):
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found, below = set(), {root}
    while below:
        below = {pid for pid, parent in parents.items() if parent in below} - found
        found |= below
    return found


def command(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    return ""


def processes(root):
    """Those below `root` that are in another process namespace than we are: those inside the sandbox."""
    ours, found = os.readlink("/proc/self/ns/pid"), []
    for pid in descendants(root):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/ns/pid") != ours and command(pid):
                found.append(pid)
    return sorted(found)


def write(root, path):
    """Makes an empty file where the processes inside see it."""
    folder, name = os.path.split(path)
    for pid in processes(root):
        with contextlib.suppress(OSError):
            owner = os.stat(f"/proc/{pid}")
            place = os.open(f"/proc/{pid}/root{folder}", os.O_RDONLY | os.O_DIRECTORY)
            try:
                touch(place, name, owner.st_uid, owner.st_gid)
            finally:
                os.close(place)


def touch(place, name, user, group):
    """As a user of the sandbox: those of the host can own no file there."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=place))
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def environment(pid):
    return pathlib.Path(f"/proc/{pid}/environ").read_bytes()


def needles(text):
    """As programs keep text: a byte or two for each character."""
    return {text.encode(), text.encode("utf-16-le")}


def in_memory(pid, text):
    """How many pieces of memory hold this text."""
    wanted, count, size = needles(text), 0, 0
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory, open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pages:
        for start, end in writable(pid):
            for begin, length in resident(pages, start, end):
                # Gone in the meantime: then it holds nothing.
                with contextlib.suppress(OSError):
                    memory.seek(begin)
                    piece = memory.read(length)
                    size += len(piece)
                    count += any(needle in piece for needle in wanted)
    return count, size


def writable(pid):
    """Mappings that can hold what a program learned. What is mapped from a file unchanged is searched as a file."""
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        place, rights, _, _, inode, *path = line.split(maxsplit=5)
        if rights[0] != "r" or (path and path[0] in ("[vvar]", "[vsyscall]", "[vvar_vclock]")):
            continue
        if "w" in rights or inode == "0":
            start, _, end = place.partition("-")
            yield int(start, 16), int(end, 16)


def resident(pages, start, end):
    """Runs of pages that are there. A reservation of many gigabytes has few."""
    run = None
    for first in range(start // PAGE, end // PAGE, STRIDE):
        count = min(STRIDE, end // PAGE - first)
        pages.seek(first * 8)
        raw = pages.read(count * 8)
        if not any(raw):
            if run:
                yield run
            run = None
            continue
        for index, entry in enumerate(array.array("Q", raw)):
            address = (first + index) * PAGE
            if entry & (PRESENT | SWAPPED):
                run = (run[0], run[1] + PAGE) if run else (address, PAGE)
            elif run:
                yield run
                run = None
    if run:
        yield run


def in_files(pid, text, since):
    """Files inside that hold this text, among those that were written since; and how many those are."""
    wanted, found, count = needles(text), [], 0
    root = f"/proc/{pid}/root"
    for place, folders, names in os.walk(root):
        if place == root:
            folders[:] = [name for name in folders if name not in ("proc", "sys")]
        for name in names:
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode) and status.st_ctime >= since:
                    count += 1
                    content = pathlib.Path(path).read_bytes()
                    if any(needle in content for needle in wanted):
                        found.append(path.removeprefix(root))
    return found, count


class Counters:
    """What a sandbox's network stack has counted. Open, they can be read even when the sandbox has ended."""

    def __init__(self, pid):
        self.plain = open(f"/proc/{pid}/net/snmp")
        self.six = open(f"/proc/{pid}/net/snmp6")

    def read(self):
        values = {}
        self.plain.seek(0)
        lines = self.plain.read().splitlines()
        for names, numbers in zip(lines[::2], lines[1::2]):
            protocol, *names = names.split()
            values |= {protocol.rstrip(":") + name: int(number) for name, number in zip(names, numbers.split()[1:])}
        self.six.seek(0)
        values |= {name: int(number) for name, number in map(str.split, self.six.read().splitlines())}
        return values

    def strays(self):
        """Attempts to reach anything but a listener inside: no route, or nobody there. Datagrams, and so look-ups, cannot
        even be tried: there are no sockets for them."""
        seen = self.read()
        names = ("IpOutNoRoutes", "Ip6OutNoRoutes", "TcpAttemptFails", "UdpOutDatagrams", "Udp6OutDatagrams")
        return {name: seen[name] for name in names if seen[name]}
