

# Files.

def written(path, canary, mode="w"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with opened(path, mode) as file:
        file.write(canary)


def search(places, canary, largest=1 << 20):
    """Canaries in names or contents of files below these places."""
    for place in places:
        for folder, folders, files in os.walk(place):
            for name in folders + files:
                path = os.path.join(folder, name)
                if canary in name:
                    return path
                try:
                    if os.path.isfile(path) and os.path.getsize(path) <= largest:
                        with opened(path, "rb") as file:
                            if canary.encode() in file.read():
                                return path
                except OSError:
                    continue


def place(name, folder, root=None, file="canary"):
    def put(canary):
        written(f"{folder}/{file}", canary)
        written(f"{folder}/{canary}", "by name")

    members = dict(look=staticmethod(lambda canary: search([folder], canary)))
    if root is None:
        members["plant"] = staticmethod(put)
    probe("files", copied=True, root=root)(type(name, (), members))


def by_root(folder):
    return f'mkdir -p {folder} && echo "$0" > {folder}/canary && : > {folder}/"$0" && chmod -R a+rX {folder}'


place("home", HOME)
place("tmp", "/tmp")
place("var_tmp", "/var/tmp")
place("run", "/run", root=by_root("/run"))
place("cache", f"{HOME}/.cache")
place("ipython", f"{HOME}/.ipython/profile_default")
place("config", f"{HOME}/.config")
place("matplotlib_cache", f"{HOME}/.cache/matplotlib", file="fontlist-v390.json")
place("matplotlib_config", f"{HOME}/.config/matplotlib", file="matplotlibrc")
place("local_share", f"{HOME}/.local/share")
place("x11", "/tmp/.X11-unix")
place("etc", "/etc/belljar", root=by_root("/etc/belljar"))
place("opt", "/opt", root=by_root("/opt"))
place("root_home", "/root", root="chmod a+rx /root; " + by_root("/root"))


@probe("files", copied=False)
class dev_shm:
    def plant(canary):
        written("/dev/shm/canary", canary)

    def look(canary):
        return search(["/dev/shm"], canary)


@probe("files", copied=True)
class any_name:
    """A name somewhere in the whole tree."""

    def plant(canary):
        written(f"{HOME}/deep/er/{canary}", "")

    def look(canary):
        for folder, folders, files in os.walk("/"):
            folders[:] = [name for name in folders if folder != "/" or name not in ("proc", "sys")]
            if canary in folder or canary in "\0".join(files):
                return folder


@probe("files", copied=True)
class user_site:
    """A start-up file of Python, which a later interpreter would run."""
    folder = f"{HOME}/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"

    def plant(canary):
        written(f"{user_site.folder}/bleed.pth", f"import sys; sys.bleed_pth = {canary!r}\n")

    def look(canary):
        code = "import sys; print(getattr(sys, 'bleed_pth', ''))"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        return "a start-up file ran" if canary in said.stdout else None


SITE = "$(python3 -c 'import numpy, os; print(os.path.dirname(numpy.__file__))')"


@probe("files", copied=True, root=f'echo "# $0" >> {SITE}/version.py')
class site_packages:
    def look(canary):
        import numpy

        with opened(os.path.join(os.path.dirname(numpy.__file__), "version.py")) as file:
            return "numpy's source has it" if canary in file.read() else None


@probe("files", copied=True, root=f"""cd {SITE} && python3 - "$0" <<'EOF'
import os, py_compile, sys
open("/tmp/poison.py", "w").write(f"poison = {{sys.argv[1]!r}}")
os.makedirs("__pycache__", exist_ok=True)
py_compile.compile("/tmp/poison.py", "__pycache__/belljar_poison.pyc")
os.unlink("/tmp/poison.py")
EOF""")
class pycache:
    def look(canary):
        import numpy

        return search([os.path.join(os.path.dirname(numpy.__file__), "__pycache__")], canary)


# Writes to a shared lower file by every way that the sandbox's root has; the
# host compares the file of the layer as well.
@probe("files", copied=True, root="""python3 - "$0" <<'EOF'
import mmap, os, sys
path = "/usr/bin/env"
with open(path, "r+b") as file:
    with mmap.mmap(file.fileno(), 0) as area:
        canary = sys.argv[1].encode()
        area[-len(canary):] = canary
        area.flush()
EOF""")
class lower_file_mapped:
    def look(canary):
        with opened("/usr/bin/env", "rb") as file:
            return "the program has it" if canary.encode() in file.read() else None


@probe("files", reach="interpreter", copied=False)
class lower_file_private:
    """A private mapping of a shared file, written to."""

    def plant(canary):
        import mmap

        with opened("/etc/passwd", "rb") as file:
            area = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        area[:len(canary)] = canary.encode()
        KEEP.append(area)

    def look(canary):
        with opened("/etc/passwd", "rb") as file:
            if canary.encode() in file.read():
                return "the file has it"
        own = [area for area in KEEP if hasattr(area, "flush") and canary.encode() in area[:]]
        return "the mapping has it" if own else None


@probe("files", reach="interpreter")
class maps:
    """A mapped file shows by its name in /proc/PID/maps."""

    def plant(canary):
        written(f"/tmp/map-{canary}", canary)
        code = f"import mmap,time; f=open('/tmp/map-{canary}','r+b'); m=mmap.mmap(f.fileno(),0); print(1,flush=True); time.sleep(900)"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        child.stdout.readline()
        KEEP.append(child)

    def look(canary):
        for path in glob.glob("/proc/[0-9]*/maps"):
            try:
                with opened(path) as file:
                    if canary in file.read():
                        return path
            except OSError:
                continue


@probe("files", reach="interpreter")
class deleted_file:
    """Deleted, and still open somewhere."""

    def plant(canary):
        code = f"import os,time; f=open('/tmp/gone','w+'); f.write({canary!r}); f.flush(); os.unlink('/tmp/gone'); print(1,flush=True); time.sleep(900)"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        child.stdout.readline()
        KEEP.append(child)

    def look(canary):
        for path in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                if os.path.isfile(path):
                    with opened(path, "rb") as file:
                        if canary.encode() in file.read(1 << 16):
                            return path
            except OSError:
                continue


@probe("files", closed=True)
class core_dump:
    def plant(canary):
        script = f"ulimit -c unlimited 2>/dev/null; cd /tmp; CANARY={canary} exec {sys.executable} -c 'import os; os.abort()'"
        subprocess.run(["/bin/sh", "-c", script], capture_output=True)
        if not core_dump.found():
            raise Closed("a crash leaves no core")

    def found():
        patterns = ["/tmp/*core*", f"{HOME}/*core*", "/var/crash/*", "/core*", "/var/lib/systemd/coredump/*"]
        return [path for pattern in patterns for path in glob.glob(pattern)]

    def look(canary):
        return search(["/tmp", "/var/crash"], canary, 1 << 30)
