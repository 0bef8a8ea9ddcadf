

# State of the interpreter.

def state(name, put, get):
    """`put` stores the canary, `get` yields what may hold it."""
    def find(canary):
        held = get()
        return "it is there" if canary in (held if isinstance(held, str) else repr(held)) else None

    probe("interpreter", reach="interpreter", copied=True)(
        type(name, (), dict(plant=staticmethod(put), look=staticmethod(find)))
    )


def imported(name):
    return __import__(name, fromlist=["_"])


def number(canary, bits=20):
    return int(hashlib.sha256(canary.encode()).hexdigest(), 16) % (1 << bits) + 1000


def counted(name, put, get):
    """State that holds a number only: one made of the canary."""
    def find(canary):
        return f"it is {get()}" if get() == number(canary) else None

    probe("interpreter", reach="interpreter", copied=True)(type(name, (), dict(
        plant=staticmethod(lambda canary: put(number(canary))), look=staticmethod(find),
    )))


def ipython():
    from IPython import get_ipython

    return get_ipython()


def patch_builtins(canary):
    import builtins

    original = builtins.len

    def len(thing):
        return original(thing)

    len.__doc__ = canary
    builtins.len = len


def handle_signal(canary):
    def handler(number, frame):
        pass

    handler.__doc__ = canary
    signal.signal(signal.SIGUSR1, handler)


def add_module(canary):
    import types

    sys.modules["bleed_module"] = types.ModuleType("bleed_module", canary)


def at_exit(canary):
    import atexit

    # Nothing lists the hooks: a child runs its own to the end.
    atexit.register(os.write, 1, f"atexit {canary}\n".encode())


def exit_hooks():
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, 1)
        import atexit

        # At its end, the shell goes through all cells that it counted.
        ipython().execution_count = ipython().cell_count = 1

        try:
            atexit._run_exitfuncs()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        text = said.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return text


def log_handler(canary):
    import logging

    handler = logging.NullHandler()
    handler.set_name(canary)
    logging.getLogger().addHandler(handler)


def numpy_option(canary):
    imported("numpy").set_printoptions(nanstr=canary)


def run_in_shell(canary):
    ipython().user_ns["session_secret"] = canary


def remember_input(canary):
    history = ipython().history_manager
    history.input_hist_raw.append(canary)
    history.input_hist_parsed.append(canary)


def inputs():
    history = ipython().history_manager
    return [history.input_hist_raw, history.input_hist_parsed, history.output_hist]


def namespace():
    return {key: value for key, value in ipython().user_ns.items() if isinstance(value, str)}


def add_magic(canary):
    def magic(line):
        return canary

    magic.__doc__ = canary
    ipython().register_magic_function(magic, magic_name="bleed")


def threads_local(canary):
    import threading

    threading.current_thread().name = canary


state("builtins", patch_builtins, lambda: __import__("builtins").len.__doc__ or "")
state("modules", add_module, lambda: getattr(sys.modules.get("bleed_module"), "__doc__", ""))
state("module_attribute", lambda canary: setattr(json, "bleed", canary), lambda: getattr(json, "bleed", ""))
state("environ", lambda canary: os.environ.update(BLEED=canary), lambda: dict(os.environ))
state("putenv", lambda canary: os.putenv("BLEED2", canary),
      lambda: subprocess.run(["env"], capture_output=True, text=True).stdout)
state("sys_path", lambda canary: sys.path.append(f"/{canary}"), lambda: sys.path)
state("meta_path", lambda canary: sys.meta_path.append(type(canary, (), {"find_spec": lambda *_: None})),
      lambda: sys.meta_path)
state("argv", lambda canary: sys.argv.append(canary), lambda: sys.argv)
state("signal_handler", handle_signal, lambda: getattr(signal.getsignal(signal.SIGUSR1), "__doc__", "") or "")
state("atexit", at_exit, exit_hooks)
state("logging", log_handler, lambda: [handler.name for handler in imported("logging").getLogger().handlers])
state("warnings", lambda canary: imported("warnings").filterwarnings("ignore", message=canary),
      lambda: imported("warnings").filters)
state("pandas_options", lambda canary: imported("pandas").set_option("display.encoding", canary),
      lambda: imported("pandas").get_option("display.encoding"))
state("numpy_options", numpy_option, lambda: imported("numpy").get_printoptions())
state("matplotlib_params", lambda canary: imported("matplotlib").rcParams.update({"svg.hashsalt": canary}),
      lambda: imported("matplotlib").rcParams["svg.hashsalt"])
state("thread_name", threads_local, lambda: imported("threading").enumerate())
state("shell_namespace", run_in_shell, namespace)
state("shell_history", remember_input, inputs)
state("shell_magics", add_magic, lambda: getattr(ipython().find_line_magic("bleed"), "__doc__", "") or "")
counted("gc_threshold", lambda n: imported("gc").set_threshold(n), lambda: imported("gc").get_threshold()[0])
counted("recursion_limit", sys.setrecursionlimit, sys.getrecursionlimit)
counted("socket_timeout", socket.setdefaulttimeout, lambda: socket.getdefaulttimeout())
counted("decimal_precision", lambda n: setattr(imported("decimal").getcontext(), "prec", n),
        lambda: imported("decimal").getcontext().prec)


@probe("interpreter", reach="interpreter", copied=True)
class execution_count:
    def plant(canary):
        ipython().execution_count = number(canary) * 1000

    def look(canary):
        count = ipython().execution_count
        return count if count // 1000 == number(canary) else None


@probe("interpreter", reach="interpreter", copied=True)
class time_zone:
    def plant(canary):
        os.environ["TZ"] = f"<{canary[-6:]}>0"
        time.tzset()

    def look(canary):
        return time.tzname[0] if time.tzname[0] == canary[-6:] else None


@probe("interpreter", reach="interpreter", specific=False)
class umask:
    def plant(canary):
        os.umask(0o135)

    def look(canary):
        now = os.umask(0o022)
        os.umask(now)
        return oct(now) if now == 0o135 else None


@probe("interpreter", reach="interpreter")
class resource_limit:
    def plant(canary):
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (number(canary, 8) - 500, 1024))

    def look(canary):
        import resource

        now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return now if now == number(canary, 8) - 500 else None


@probe("interpreter", reach="interpreter", specific=False)
class priority:
    def plant(canary):
        os.nice(7)

    def look(canary):
        return os.nice(0) if os.nice(0) == 7 else None


@probe("interpreter", reach="interpreter", specific=False)
class blocked_signals:
    def plant(canary):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    def look(canary):
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        return blocked if signal.SIGUSR2 in blocked else None


@probe("interpreter", reach="interpreter")
class process_name:
    def plant(canary):
        libc.prctl(15, canary[-15:].encode(), 0, 0, 0)

    def look(canary):
        with opened("/proc/self/comm") as file:
            return "comm" if file.read().strip() == canary[-15:] else None
