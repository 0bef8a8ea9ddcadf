# args: ["pip" to install the package with pip, "npm" to install one with npm] [to=HOST:PORT]...
# LNG-03: a package that attacks while it is being installed. It may run, but only as
# the sandbox user, without a way out and without a right that the user has not.
import json
import os
import shutil
import subprocess
import sys
import tempfile

PROBE = r'''
import errno, json, os, socket, sys
out = {"uid": os.getuid(), "euid": os.geteuid(), "held": [], "breach": []}
# No route may exist: a timeout would mean that packets left for somewhere. The addresses
# are given by the caller, or are those that documents use and nobody has.
targets = os.environ.get("LNG03_TO") or "192.0.2.1:443 198.51.100.1:80 203.0.113.1:53"
for target in targets.split():
    host, _, port = target.rpartition(":")
    port = int(port)
    s = None
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.settimeout(0.3)
        s.connect((host, port))
        out["breach"].append("connected to %s:%d" % (host, port))
    except socket.timeout:
        out["breach"].append("%s:%d has a route" % (host, port))
    except OSError as e:
        out["held"].append("%s:%d %s" % (host, port, errno.errorcode.get(e.errno, e.errno)))
    finally:
        if s is not None:
            s.close()
# Places from which code would be run by others later.
for path in ("/usr/lib/lng03", "/usr/local/bin/lng03", "/etc/profile.d/lng03.sh", "/etc/cron.d/lng03",
             "/etc/ld.so.preload", "/lib/lng03"):
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.close(fd)
        os.unlink(path)
        out["breach"].append(path + " can be made")
    except OSError as e:
        out["held"].append("%s %s" % (path, errno.errorcode.get(e.errno, e.errno)))
words = ("SECRET", "PASSWORD", "API_KEY", "PRIVATE")
names = [k for k in os.environ if any(w in k.upper() for w in words)]
if names:
    out["breach"].append("environment carries " + ", ".join(names))
with open(os.environ["LNG03_OUT"], "w") as f:
    json.dump(out, f)
'''

held, breach = [], []
mode = next((arg for arg in sys.argv[1:] if arg in ("pip", "npm")), "")
targets = [arg[3:] for arg in sys.argv[1:] if arg.startswith("to=")]
work = tempfile.mkdtemp(prefix="lng03.")
result = os.path.join(work, "out.json")
env = dict(os.environ, LNG03_OUT=result, LNG03_TO=" ".join(targets), HOME=work, PIP_NO_INPUT="1")


def run(argv, cwd, limit):
    try:
        p = subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
        return p.returncode
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        return -1


try:
    sdist = os.path.join(work, "sdist")
    os.mkdir(sdist)
    with open(os.path.join(sdist, "setup.py"), "w") as f:
        f.write(PROBE + "\ntry:\n    from setuptools import setup\n    setup(name='lng03', version='1')\n"
                        "except ImportError:\n    pass\n")
    if mode == "pip":
        # No index and no isolation: nothing is fetched, setup.py runs all the same.
        code = run([sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation",
                    "--no-deps", "--target", os.path.join(work, "site"), sdist], work, 30)
    elif mode == "npm":
        with open(os.path.join(sdist, "probe.py"), "w") as f:
            f.write(PROBE)
        with open(os.path.join(sdist, "package.json"), "w") as f:
            json.dump({"name": "lng03", "version": "1.0.0",
                       "scripts": {"postinstall": sys.executable + " probe.py"}}, f)
        code = run(["npm", "install", "--offline", "--no-audit", "--no-fund"], sdist, 30)
    else:
        # What every installer does with a source package, without the installer's weight.
        code = run([sys.executable, "setup.py", "--name"], sdist, 10)
    if os.path.exists(result):
        with open(result) as f:
            out = json.load(f)
        held += out["held"]
        breach += out["breach"]
        if out["uid"] != os.getuid() or out["euid"] != os.getuid() or out["uid"] == 0:
            breach.append("the package ran as uid %d/%d" % (out["uid"], out["euid"]))
        else:
            held.append("the package ran as our own uid %d" % out["uid"])
    else:
        print("NOTE the installer ended with %s and ran nothing" % code, flush=True)
        held.append("the package's code did not run")
finally:
    shutil.rmtree(work, ignore_errors=True)

print(("BREACH " + "; ".join(breach)) if breach else ("HELD " + "; ".join(held)), flush=True)
