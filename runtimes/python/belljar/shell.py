"""The IPython shell of a context, and how it runs a cell.

The run path is our own: IPython's `run_cell` compiles each statement by
itself, tees the streams into a history and changes `builtins` twice, which
in a forked child means a copy of many pages. What users can see of it is
kept: magics, top-level await, `_`, `In` and `Out`, AST transformers, event
callbacks and the `ast_node_interactivity` setting.
"""

import ast
import builtins
import inspect
import re
import sys
import traceback

from IPython.core import async_helpers
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import UsageError
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell
from traitlets.config import Config

from . import commands
from .display import Figures, Formatter, InlineBackend
from .offer import Offer
from .values import bundle

# Anything that IPython might rewrite although it could be Python: escapes at
# the start of a line, help at the end, assignments from the system.
SPECIAL = re.compile(r"^\s*(?:[%!?/,;]|>>>|In \[)|\?\s*$|=\s*[%!]", re.MULTILINE)
# A one-line cell is only safe from automagic (`ls -l`) if it starts like this.
ORDINARY_LINE = re.compile(r"\s*(?:\w+[(.\[]|\w+ *=|from |import |[\"'\d(\[{])")
BUILTIN_EVENTS = ("pre_execute", "pre_run_cell", "post_execute", "post_run_cell")


class Hook(DisplayHook):
    """Sends the value of a cell's last expression."""

    @property
    def prompt_count(self):
        return self.shell.cell_count

    def quiet(self):
        source = self.shell.cell_source
        return ";" in source and self.semicolon_at_end_of_expression(source)

    def __call__(self, value=None):
        if value is None or self.quiet():
            return
        data, metadata = self.shell.display_formatter.format(value)
        self.update_user_ns(value)
        if self.exec_result is not None:
            self.exec_result.result = value
        if data:
            self.shell.emit("result", data, metadata, count=self.shell.cell_count)


class Publisher(DisplayPublisher):
    def _setup_execution_tracking(self):
        # IPython counts outputs here for a history we do not keep.
        pass

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):
        self._validate_data(data, metadata)
        display_id = (transient or {}).get("display_id")
        self.shell.emit(
            "display", data, metadata or {},
            display_id=None if display_id is None else str(display_id), update=bool(update),
        )

    def clear_output(self, wait=False):
        # Events cannot be taken back.
        pass


class Shell(InteractiveShell):
    displayhook_class = Hook
    display_pub_class = Publisher

    def __init__(self, channel):
        self.channel = channel
        self.cell_count = 0
        self.cell_source = ""
        self._compiling = False
        self._memory = {}
        config = Config()
        config.HistoryManager.enabled = False
        config.HistoryManager.hist_file = ":memory:"
        config.InteractiveShell.colors = "nocolor"
        config.InteractiveShell.autocall = 0
        super().__init__(config=config)
        # Held for good: entering them per cell would change `builtins`, and
        # with it every specialised global lookup in the process.
        self.builtin_trap.__enter__()
        self.display_trap.__enter__()
        builtins.input = no_input
        for event in BUILTIN_EVENTS:
            self.events.callbacks[event].clear()
        self.figures = Figures(self)
        self.offer = Offer(self)
        self.configurables.append(InlineBackend.instance(parent=self))
        self._pristine = self._transformers()

    # What IPython would otherwise put on disk or start.

    @property
    def db(self):
        return self._memory

    @db.setter
    def db(self, _value):
        pass

    def init_ipython_dir(self, ipython_dir):
        pass

    def init_profile_dir(self, profile_dir):
        if not isinstance(InteractiveShell.__dict__.get("db"), property):
            # Before IPython 9.1x the constructor opens a database there.
            import tempfile
            from IPython.core.profiledir import ProfileDir

            self.profile_dir = ProfileDir(location=tempfile.mkdtemp(prefix="ipython-"))

    def init_completer(self):
        self.Completer = None

    def init_display_formatter(self):
        self.display_formatter = Formatter(parent=self)
        self.configurables.append(self.display_formatter)

    def init_virtualenv(self):
        pass

    def enable_gui(self, gui=None):
        pass

    def enable_matplotlib(self, gui=None):
        import matplotlib

        matplotlib.use("agg")
        return "inline", "inline"

    def ask_exit(self):
        raise SystemExit(0)

    def system(self, command):
        commands.system(self, self.var_expand(command, depth=1))

    system_piped = system_raw = system

    # Events.

    def emit(self, kind, data, metadata, **fields):
        self.channel.send({
            "ev": kind, "id": self.channel.cell,
            "data": bundle(data), "metadata": bundle(metadata), **fields,
        })

    def _showtraceback(self, etype, evalue, stb):
        # Reached by `%tb` and by failing reprs; a cell's own error is
        # reported by `report`.
        print(self.InteractiveTB.stb2text(stb), file=sys.stderr)

    # Cells.

    def cell(self, code, store=True, after=None):
        """Runs a cell and sends its events; `after` is called before the last."""
        count = self.cell_count = self.execution_count
        if store:
            self.execution_count = count + 1
        self.figures.forget()
        self.offer.before(code)
        error = self.guarded(self._run, code, store)
        late = self.guarded(self.figures.flush)
        error = error or late
        if len(commands.threading._active) > 1:
            commands.stop_script_loop(self)
        if error is not None:
            if self.guarded(self.report, error) is not None:
                # Its own formatting failed or was interrupted.
                self.channel.send({
                    "ev": "error", "id": self.channel.cell, "name": type(error).__name__,
                    "value": "", "traceback": [type(error).__name__],
                })
        if after is not None:
            after()
        self.channel.alarm.disarm()
        self.channel.over()
        self.channel.send({"ev": "done", "id": self.channel.cell, "ok": error is None, "count": count})

    def guarded(self, function, *arguments):
        """Calls `function` where an interrupt may end it; returns the error."""
        channel = self.channel
        try:
            try:
                channel.running = True
                if channel.interrupted:
                    channel.raise_interrupt()
                function(*arguments)
            finally:
                channel.running = False
        except BaseException as error:
            channel.running = False
            return error

    def _run(self, code, store):
        if not code or code.isspace():
            return
        callbacks = self.events.callbacks
        if any(callbacks[event] for event in BUILTIN_EVENTS):
            return self._run_with_events(code, store)
        self._run_quietly(code, store)

    def _run_with_events(self, code, store):
        info = ExecutionInfo(code, store, False, True, None)
        result = ExecutionResult(info)
        self.events.trigger("pre_execute")
        self.events.trigger("pre_run_cell", info)
        try:
            self._run_quietly(code, store)
        except BaseException as error:
            result.error_in_exec = error
            raise
        finally:
            self.events.trigger("post_execute")
            self.events.trigger("post_run_cell", result)

    def _run_quietly(self, code, store):
        namespace = self.user_ns
        namespace.pop("__warningregistry__", None)
        self._compiling = True
        source, name, tree = self._parsed(code)
        if store:
            history = self.history_manager
            history.input_hist_parsed.append(source.rstrip("\n"))
            history.input_hist_raw.append(code.rstrip("\n"))
        if self.ast_transformers:
            tree = self.transform_ast(tree)
        codes = list(self._compiled(tree.body, name))
        self._compiling = False
        if any(code.co_flags & inspect.CO_COROUTINE for code in codes):
            self._await(self._run_async(codes))
            return
        for code in codes:
            exec(code, namespace)

    def _parsed(self, code):
        number, cache, parse = self.cell_count, self.compile.cache, self.compile.ast_parse
        if self._is_plain(code):
            source = code if code.endswith("\n") else code + "\n"
            name = cache(source, number, raw_code=code)
            try:
                tree = parse(source, filename=name)
                self.cell_source = source
                return source, name, tree
            except (SyntaxError, ValueError):
                pass
        source = self.cell_source = self.transform_cell(code)
        name = cache(source, number, raw_code=code)
        return source, name, parse(source, filename=name)

    def _is_plain(self, code):
        """Whether IPython's own rewriting would certainly do nothing."""
        return (
            not SPECIAL.search(code)
            and ("\n" in code.strip("\n") or ORDINARY_LINE.match(code) is not None)
            and self._transformers() == self._pristine
        )

    def _transformers(self):
        steps = self.input_transformer_manager
        return (
            len(steps.cleanup_transforms), len(steps.line_transforms),
            len(steps.token_transformers), len(self.input_transformers_post),
            len(self.prefilter_manager.transformers),
        )

    def _compiled(self, nodes, name):
        """The cell as code objects; the shown expressions by themselves."""
        shown = self.ast_node_interactivity
        if not nodes:
            return
        if shown == "last_expr_or_assign":
            target = getattr(nodes[-1], "target", None) or (getattr(nodes[-1], "targets", None) or [None])[0]
            if isinstance(target, ast.Name):
                nodes.append(ast.fix_missing_locations(ast.Expr(ast.Name(target.id, ast.Load()))))
            shown = "last_expr"
        if shown == "last_expr":
            shown = "last" if isinstance(nodes[-1], ast.Expr) else "none"
        split = {"none": len(nodes), "last": len(nodes) - 1, "all": 0}[shown]
        flag = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if self.autoawait else 0
        with self.compile.extra_flags(flag):
            if split:
                yield self.compile(ast.Module(nodes[:split], []), name, "exec")
            for node in nodes[split:]:
                yield self.compile(ast.Interactive([node]), name, "single")

    async def _run_async(self, codes):
        for code in codes:
            value = eval(code, self.user_ns)
            if code.co_flags & inspect.CO_COROUTINE:
                await value

    def _await(self, coroutine):
        if self.loop_runner is not async_helpers._asyncio_runner:
            self.loop_runner(coroutine)
            return
        loop = async_helpers.get_asyncio_loop()
        task = loop.create_task(coroutine)
        try:
            loop.run_until_complete(task)
        except KeyboardInterrupt:
            # The task must end with the cell, not go on in the next one. If the
            # interrupt ended it already, the loop would not stop for it.
            if not task.done():
                task.cancel()
                try:
                    loop.run_until_complete(task)
                except BaseException:
                    pass
            raise

    # Errors.

    def report(self, error):
        kind, trace = type(error), self._own_frames_removed(error.__traceback__)
        sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
        sys.last_exc = error
        error.__traceback__ = trace
        try:
            value = str(error)
        except Exception:
            value = f"<{kind.__name__} without text>"
        self.channel.send({
            "ev": "error", "id": self.channel.cell, "name": kind.__name__,
            "value": value, "traceback": self._lines(kind, error, trace),
        })

    def _lines(self, kind, error, trace):
        try:
            if isinstance(error, UsageError):
                return [f"UsageError: {error}"]
            if isinstance(error, SyntaxError) and self._compiling:
                text = self.SyntaxTB.stb2text(self.SyntaxTB.structured_traceback(kind, error, []))
            elif isinstance(error, SystemExit):
                text = "".join(traceback.format_exception_only(kind, error))
            elif holds_group(error):
                # IPython cannot format these yet.
                text = "".join(traceback.format_exception(kind, error, trace))
            elif hasattr(error, "_render_traceback_"):
                text = "\n".join(error._render_traceback_())
            else:
                formatter = self.InteractiveTB
                text = formatter.stb2text(formatter.structured_traceback(kind, error, trace, tb_offset=0))
        except Exception:
            text = "".join(traceback.format_exception(kind, error, trace))
        return text.rstrip("\n").split("\n")

    def _own_frames_removed(self, trace):
        """The traceback from the first frame of user code on."""
        cells, entry = self.compile._filename_map, trace
        while entry is not None:
            if entry.tb_frame.f_code.co_filename in cells:
                # What stands around a call of the user's is not their business.
                inner = entry
                while inner is not None:
                    while inner.tb_next is not None and is_own(inner.tb_next):
                        inner.tb_next = inner.tb_next.tb_next
                    inner = inner.tb_next
                return entry
            entry = entry.tb_next
        while trace is not None and is_own(trace):
            trace = trace.tb_next
        return trace


def is_own(entry):
    return entry.tb_frame.f_code.co_filename.startswith("<belljar ")


def holds_group(error):
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            return True
        error = error.__context__
    return False


def no_input(prompt=""):
    raise RuntimeError(
        "input() is not available: nobody sits at a keyboard here. Set the value as a variable instead."
    )
