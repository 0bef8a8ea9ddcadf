"""The Python context, from the host's side of its socket.

BELLJAR_TEST_PYTHON is the command that starts the Python under test; without
it, the Python that runs the tests.
"""

import base64
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import PATIENCE, Zygote, python_command, python_context, rest, wait_until

WARM = """
for name in ("numpy", "pandas", "matplotlib"):
    try:
        __import__(name)
    except ImportError:
        pass
else:
    try:
        import matplotlib.pyplot
    except ImportError:
        pass
"""


def has(module):
    return subprocess.run(
        [*python_command(), "-c", f"import {module}"], capture_output=True, check=False
    ).returncode == 0


IPYTHON, PANDAS, MATPLOTLIB = has("IPython"), has("pandas"), has("matplotlib")
KERNEL = tuple(int(part) for part in os.uname().release.split(".")[:2])
LARGE_PAGES = os.path.exists("/sys/kernel/mm/transparent_hugepage") and KERNEL >= (6, 1)


# The beginning of a cell that waits for an event, and goes on when it is let go.
GO = "import signal, threading\ngo = threading.Event()\n_ = signal.signal(signal.SIGUSR1, lambda *_: go.set())\n"


class ContextTest(unittest.TestCase):
    """One context for all tests of a class: cells must not disturb others."""

    @classmethod
    def setUpClass(cls):
        if not IPYTHON:
            raise unittest.SkipTest("the Python under test has no IPython")
        cls.context = cls.open()

    @classmethod
    def open(cls):
        return python_context()

    @classmethod
    def tearDownClass(cls):
        cls.context.close()

    def run_ok(self, code, **options):
        outcome = self.context.run(code, **options)
        self.assertTrue(outcome.done["ok"], outcome.events)
        return outcome

    def interrupt(self):
        os.kill(self.context.ready["pid"], signal.SIGINT)

    def let_go(self):
        """Ends what waits for `go`, an event that GO makes."""
        os.kill(self.context.ready["pid"], signal.SIGUSR1)


class Cells(ContextTest):
    def test_print_is_one_event(self):
        outcome = self.run_ok("print(1)")
        self.assertEqual([e["ev"] for e in outcome.events], ["stdout", "done"])
        self.assertEqual(outcome.text(), "1\n")

    def test_state_stays_and_last_expression_is_the_result(self):
        self.run_ok("value = 20")
        outcome = self.run_ok("value += 1\nvalue * 2")
        self.assertEqual(outcome.plain, "42")
        self.assertEqual(outcome.result["count"], outcome.done["count"])
        self.assertEqual(self.run_ok("_").plain, "42")

    def test_semicolon_hides_the_result(self):
        self.assertIsNone(self.run_ok("5;").result)
        self.assertEqual(self.run_ok("'a;b'").plain, "'a;b'")

    def test_count_only_grows_for_stored_cells(self):
        first = self.run_ok("1").done["count"]
        self.assertEqual(self.run_ok("1", store=False).done["count"], first + 1)
        self.assertEqual(self.run_ok("1").done["count"], first + 1)

    def test_streams_keep_their_order(self):
        outcome = self.run_ok(
            "import sys\nprint('a', end='')\nprint('b', end='', file=sys.stderr)\nprint('c')\n7"
        )
        self.assertEqual([e["ev"] for e in outcome.events], ["stdout", "stderr", "stdout", "result", "done"])

    def test_unfinished_line_shows_while_the_cell_waits(self):
        self.context.begin(GO + "print('line')\nprint('loading', end='')\nwhile not go.wait(0.01): pass\nprint(' done')")
        self.assertEqual(self.context.receive()["text"], "line\n")
        self.assertEqual(self.context.receive()["text"], "loading")
        self.let_go()
        self.context.until("done")

    def test_large_output_is_split(self):
        outcome = self.run_ok("print('x' * 3_000_000)")
        self.assertEqual(len(outcome.text()), 3_000_001)
        self.assertGreater(len(outcome.all("stdout")), 5)

    def test_bytes_written_to_the_buffer(self):
        code = "import sys\nn = sys.stdout.buffer.write('é\\n'.encode())\nsys.stdout.fileno(), sys.stdout.isatty()"
        outcome = self.run_ok(code)
        self.assertEqual(outcome.text(), "é\n")
        self.assertEqual(outcome.plain, "(1, False)")

    def test_await_at_top_level(self):
        self.assertEqual(self.run_ok("import asyncio\nawait asyncio.sleep(0.01)\nawait asyncio.sleep(0, 'x')").plain, "'x'")
        self.run_ok("task = asyncio.ensure_future(asyncio.sleep(0.01, 5))\nawait asyncio.sleep(0)")
        self.assertEqual(self.run_ok("await task").plain, "5")
        self.assertEqual(self.run_ok("asyncio.run(asyncio.sleep(0, 3))").plain, "3")

    def test_magics_and_commands(self):
        self.assertIn("per loop", self.run_ok("%timeit -n1 -r1 1").text())
        outcome = self.run_ok("!echo out; echo err >&2")
        self.assertEqual((outcome.text(), outcome.text("stderr")), ("out\n", "err\n"))
        self.assertEqual(self.run_ok("lines = !echo a; echo b\nlines[1]").plain, "'b'")
        self.assertEqual(self.run_ok("%%bash\necho from bash").text(), "from bash\n")
        self.assertEqual(self.run_ok("%%capture box\nprint('x')\ndisplay(1)").text(), "")
        self.assertEqual(self.run_ok("box.stdout").plain, "'x\\n'")
        self.assertIn("Wall time", self.run_ok("%%time\nx = 1").text())
        self.assertEqual(self.run_ok("%cd /\n%pwd").plain, "'/'")
        self.assertEqual(self.run_ok("word = 'w'\n!echo $word {word}").text(), "w w\n")
        self.assertEqual(self.run_ok("pwd").plain, "'/'")

    def test_command_that_stays_in_the_background_does_not_block(self):
        # Longer than anybody waits for the end of the cell.
        stays = self.run_ok(f"!sleep {10 * PATIENCE:.0f} & echo $!").text()
        self.run_ok(f"!kill {int(stays)}")

    def test_plain_text_that_looks_special(self):
        outcome = self.run_ok("text = '''\n%notmagic\n!no\n?'''\nprint(text)\n10 % 3")
        self.assertEqual(outcome.text(), "\n%notmagic\n!no\n?\n")
        self.assertEqual(outcome.plain, "1")

    def test_interactivity_setting(self):
        self.run_ok("from IPython.core.interactiveshell import InteractiveShell as S\nS.ast_node_interactivity = 'all'")
        outcome = self.run_ok("1\n2\nx = 3")
        self.run_ok("S.ast_node_interactivity = 'last_expr'")
        self.assertEqual([e["data"]["text/plain"] for e in outcome.all("result")], ["1", "2"])

    def test_event_callbacks_and_ast_transformers(self):
        self.run_ok("seen = []\nip = get_ipython()\nip.events.register('pre_run_cell', lambda info: seen.append(info.raw_cell))")
        self.run_ok("'marked'")
        self.assertIn("marked", self.run_ok("seen").plain)
        self.run_ok("ip.events.callbacks['pre_run_cell'].clear()")
        self.run_ok(
            "import ast\nclass Two(ast.NodeTransformer):\n"
            "    def visit_Constant(self, n):\n        return ast.Constant(2) if n.value == 1 else n\n"
            "ip.ast_transformers.append(Two())"
        )
        self.assertEqual(self.run_ok("1 + 1").plain, "4")
        self.run_ok("ip.ast_transformers.clear()")

    def test_main_module_is_the_users(self):
        self.assertEqual(self.run_ok("__name__").plain, "'__main__'")
        self.assertEqual(self.run_ok("import pickle\nclass A: x = 5\npickle.loads(pickle.dumps(A())).x").plain, "5")
        self.assertEqual(self.run_ok("import sys\nsys.path[0], sys.argv, sys.stdin.read()").plain, "('', [''], '')")

    def test_environment_of_a_cell(self):
        code = "import os; [os.environ.get('FOO'), os.getenv('PATH'), os.popen('echo $FOO').read()]"
        before = self.run_ok(code).result["data"]["application/json"]
        env = {"FOO": "bar", "PATH": "/bin"}
        self.assertEqual(self.run_ok(code, env=env).result["data"]["application/json"], ["bar", "/bin", "bar\n"])
        self.assertEqual(self.run_ok(code).result["data"]["application/json"], before)
        self.assertFalse(self.context.run("del os.environ['FOO']; os.environ['PATH'] = '/x'; 1 / 0", env=env).done["ok"])
        self.assertEqual(self.run_ok(code).result["data"]["application/json"], before)

    def test_history_in_memory(self):
        self.run_ok("'needle'")
        self.assertIn("needle", self.run_ok("In[-2]").plain)
        self.assertIn("needle", self.run_ok("Out[get_ipython().execution_count - 3]").plain)

    def test_forked_processes_write_elsewhere(self):
        outcome = self.run_ok(
            "import os, warnings\nprint('held', end='')\npid = os.fork()\nif pid == 0:\n"
            "    print('child')\n    os._exit(0)\nos.waitpid(pid, 0)[1]"
        )
        self.assertEqual(outcome.text(), "held")
        self.assertEqual(outcome.plain, "0")

    def test_threads_may_print_after_their_cell(self):
        self.run_ok(GO + "t = threading.Thread(target=lambda: (go.wait(), print('late')))\nt.start()")
        self.let_go()
        self.assertEqual(self.context.receive()["text"], "late\n")
        self.run_ok("t.join()")

    def test_no_ipython_folder(self):
        self.assertEqual(self.run_ok("import os, time\nos.path.exists(os.path.expanduser('~/.ipython/profile_default/history.sqlite')) and os.stat(os.path.expanduser('~/.ipython')).st_mtime > time.time() - 5").plain, "False")


class Errors(ContextTest):
    def fails(self, code):
        outcome = self.context.run(code)
        self.assertFalse(outcome.done["ok"])
        self.assertEqual(len(outcome.all("error")), 1, outcome.events)
        self.assertNotIn("\x1b", "".join(outcome.error["traceback"]))
        return outcome.error

    def test_exception_has_a_formatted_traceback(self):
        error = self.fails("def f(n):\n    return n / 0\nf(1)")
        self.assertEqual((error["name"], error["value"]), ("ZeroDivisionError", "division by zero"))
        text = "\n".join(error["traceback"])
        self.assertIn("----> 3 f(1)", text)
        self.assertIn("return n / 0", text)
        self.assertNotIn("belljar", text)
        self.assertTrue(all("\n" not in line for line in error["traceback"]))

    def test_syntax_error(self):
        self.assertEqual(self.fails("def f(:")["name"], "SyntaxError")
        self.assertEqual(self.fails("return 5")["name"], "SyntaxError")
        self.assertEqual(self.fails("  x = 1\n y = 2")["name"], "IndentationError")

    def test_exit_does_not_end_the_context(self):
        for code in ("import sys\nsys.exit(3)", "exit", "quit()", "raise SystemExit"):
            self.assertEqual(self.fails(code)["name"], "SystemExit")

    def test_input_says_why_not(self):
        self.assertIn("not available", self.fails("input('name? ')")["value"])

    def test_unknown_magic(self):
        self.assertEqual(self.fails("%nosuchmagic")["name"], "UsageError")

    def test_exception_group_and_awaited_error(self):
        self.assertEqual(self.fails("raise ExceptionGroup('g', [ValueError(1)])")["name"], "ExceptionGroup")
        self.assertEqual(self.fails("import asyncio\nasync def f():\n    raise KeyError('k')\nawait f()")["name"], "KeyError")

    def test_hostile_exceptions(self):
        self.assertEqual(self.fails("class E(Exception):\n    def __str__(self): raise ValueError\nraise E()")["name"], "E")
        self.assertEqual(self.fails("def deep(): deep()\ndeep()")["name"], "RecursionError")
        self.assertIn("\ufffd", self.fails("raise ValueError('\\ud800')")["value"])

    def test_failing_repr_is_not_an_error_of_the_cell(self):
        outcome = self.context.run("class R:\n    def _repr_html_(self): 1 / 0\n    def __repr__(self): return 'R'\nR()")
        self.assertTrue(outcome.done["ok"])
        self.assertEqual(outcome.plain, "R")
        self.assertIn("ZeroDivisionError", outcome.text("stderr"))


class Interrupts(ContextTest):
    def interrupted(self, code):
        self.context.begin(code)
        self.context.receive()
        self.interrupt()
        error, done = self.context.until("done")[-2:]
        self.assertEqual((error["ev"], error["name"], done["ok"]), ("error", "KeyboardInterrupt", False))
        self.assertEqual(self.context.run("6 * 7").plain, "42")

    def test_busy_loop(self):
        self.interrupted("print('go')\nwhile True: pass")

    def test_sleep_and_command(self):
        self.interrupted("print('go')\nimport time\ntime.sleep(60)")
        self.interrupted("!echo go; sleep 60")

    def test_await(self):
        self.interrupted("import asyncio\nprint('go')\nawait asyncio.sleep(60)")
        self.assertEqual(self.context.run("len(asyncio.all_tasks(asyncio.new_event_loop()))").plain, "0")

    def test_printing_loop_never_breaks_a_frame(self):
        for _ in range(20):
            self.interrupted("while True: print('x' * 50_000)")

    def test_idle_signal_is_ignored(self):
        for _ in range(5):
            self.interrupt()
        rest(self.context.ready["pid"])
        self.assertEqual(self.context.run("1").plain, "1")

    def test_signal_right_after_the_message_counts(self):
        for _ in range(20):
            self.context.begin("while True: pass")
            self.interrupt()
            self.assertEqual(self.context.until("done")[-2]["name"], "KeyboardInterrupt")


class Display(ContextTest):
    def test_display_and_update(self):
        outcome = self.run_ok("handle = display('a', display_id='d')\nhandle.update('b')")
        first, second = outcome.all("display")
        self.assertEqual((first["display_id"], first["update"], second["update"]), ("d", False, True))
        self.assertEqual(second["data"]["text/plain"], "'b'")

    def test_rich_reprs(self):
        outcome = self.run_ok(
            "class Rich:\n"
            "    def _repr_html_(self): return '<b>x</b>'\n"
            "    def _repr_markdown_(self): return '**x**'\n"
            "    def _repr_svg_(self): return '<svg/>'\n"
            "    def _repr_latex_(self): return '$x$'\n"
            "    def _repr_javascript_(self): return 'x()'\n"
            "    def _repr_json_(self): return {'x': float('inf'), 'big': 10 ** 400}\n"
            "    def _repr_png_(self): return b'\\x89PNG'\n"
            "    def _repr_jpeg_(self): return b'\\xff'\n"
            "    def _repr_pdf_(self): return b'%PDF'\n"
            "Rich()"
        )
        data = outcome.result["data"]
        self.assertEqual(data["text/html"], "<b>x</b>")
        self.assertEqual(data["application/json"]["x"], None)
        self.assertEqual(base64.b64decode(data["image/png"]), b"\x89PNG")
        self.assertEqual(
            set(data) - {"text/plain"},
            {"text/html", "text/markdown", "image/svg+xml", "text/latex", "application/javascript",
             "application/json", "image/png", "image/jpeg", "application/pdf"},
        )

    def test_lists_and_dicts_are_also_json(self):
        self.assertEqual(self.run_ok("{1: [1.5, None, float('nan')]}").result["data"]["application/json"], {"1": [1.5, None, None]})
        self.assertNotIn("application/json", self.run_ok("[object()]").result["data"])
        self.assertNotIn("application/json", self.run_ok("loop = []\nloop.append(loop)\nloop").result["data"])

    def test_custom_formatter_for_a_builtin_type(self):
        self.run_ok("html = get_ipython().display_formatter.formatters['text/html']\nhtml.for_type(int, lambda n: f'<i>{n}</i>')")
        self.assertEqual(self.run_ok("5").result["data"]["text/html"], "<i>5</i>")
        self.run_ok("html.pop(int)")
        self.assertNotIn("text/html", self.run_ok("5").result["data"])

    def test_oversized_value_is_named(self):
        outcome = self.run_ok("from IPython.display import HTML\ndisplay(HTML('x' * 40_000_000))\n1")
        data = outcome.all("display")[0]["data"]
        self.assertNotIn("text/html", data)
        self.assertIn("text/html of 40000002 bytes", data["text/plain"])

    @unittest.skipUnless(PANDAS, "the Python under test has no pandas")
    def test_data_frame(self):
        outcome = self.run_ok(
            "import pandas as pd, numpy as np\n"
            "df = pd.DataFrame({'n': [1, 2], 'f': [1.5, np.nan], 's': ['a', None], 't': pd.to_datetime(['2024-01-02', None])})\ndf"
        )
        data = outcome.result["data"]
        self.assertIn("<table", data["text/html"])
        self.assertEqual(
            data["e2b/data"],
            {"n": [1, 2], "f": [1.5, None], "s": ["a", None], "t": ["2024-01-02T00:00:00", None]},
        )
        self.assertEqual(self.run_ok("{'a': np.arange(3), 'b': np.float64(2)}").result["data"]["application/json"], {"a": [0, 1, 2], "b": 2.0})


@unittest.skipUnless(MATPLOTLIB, "the Python under test has no matplotlib")
class Figures(ContextTest):
    def chart(self, code):
        outcome = self.run_ok("import matplotlib.pyplot as plt\nplt.close('all')\n" + code)
        shown = outcome.all("display")
        self.assertEqual(len(shown), 1, outcome.events)
        self.assertEqual(base64.b64decode(shown[0]["data"]["image/png"])[:4], b"\x89PNG")
        return shown[0]["data"]["e2b/chart"]

    def test_line(self):
        chart = self.chart("plt.plot([1, 2], [3, 4], label='s')\nplt.title('T')\nplt.xlabel('time (s)');")
        self.assertEqual((chart["type"], chart["title"], chart["x_label"], chart["x_unit"]), ("line", "T", "time (s)", "s"))
        self.assertEqual((chart["y_label"], chart["y_unit"], chart["x_scale"]), (None, None, "linear"))
        self.assertEqual(chart["elements"], [{"label": "s", "points": [[1, 3], [2, 4]]}])
        self.assertEqual(len(chart["x_ticks"]), len(chart["x_tick_labels"]))

    def test_dates_and_names(self):
        chart = self.chart("import datetime as d\nplt.plot([d.date(2024, 1, 1), d.date(2024, 1, 2)], [1, 2]);")
        self.assertEqual(chart["x_scale"], "datetime")
        self.assertTrue(chart["elements"][0]["points"][0][0].startswith("2024-01-01"))
        chart = self.chart("plt.plot(['a', 'b'], [1, 2]);")
        self.assertEqual((chart["x_scale"], chart["elements"][0]["points"]), ("categorical", [["a", 1], ["b", 2]]))
        self.assertEqual(self.chart("plt.semilogy([1, 2], [1, 2]);")["y_scale"], "log")

    def test_scatter(self):
        chart = self.chart("plt.scatter([1, 2], [3, 4]);")
        self.assertEqual((chart["type"], chart["elements"][0]["points"]), ("scatter", [[1, 3], [2, 4]]))
        self.assertEqual(self.chart("plt.plot([1, 2], [1, 2], 'o');")["type"], "scatter")

    def test_bar(self):
        chart = self.chart("plt.bar(['a', 'b'], [1, 2], label='g')\nplt.ylabel('price [EUR]');")
        self.assertEqual((chart["type"], chart["y_unit"]), ("bar", "EUR"))
        self.assertEqual(chart["elements"], [{"label": "a", "group": "g", "value": 1}, {"label": "b", "group": "g", "value": 2}])
        self.assertEqual(self.chart("plt.barh(['a'], [7]);")["elements"], [{"label": "a", "group": "", "value": 7}])
        self.assertEqual(self.chart("plt.hist([1, 1, 2], bins=2);")["elements"][0]["value"], 2)

    @unittest.skipUnless(PANDAS, "the Python under test has no pandas")
    def test_grouped_bars_of_pandas(self):
        chart = self.chart("import pandas as pd\npd.DataFrame({'x': [1, 2], 'y': [3, 4]}, index=['p', 'q']).plot.bar();")
        self.assertEqual([(e["label"], e["group"], e["value"]) for e in chart["elements"]],
                         [("p", "x", 1), ("q", "x", 2), ("p", "y", 3), ("q", "y", 4)])

    def test_pie(self):
        chart = self.chart("plt.pie([1, 3], labels=['a', 'b']);")
        self.assertEqual([e["label"] for e in chart["elements"]], ["a", "b"])
        self.assertAlmostEqual(chart["elements"][0]["angle"], 90, places=3)
        self.assertEqual(chart["elements"][0]["radius"], 1)

    def test_box(self):
        chart = self.chart("plt.boxplot([[1, 2, 3, 4, 100]]);")
        self.assertEqual(chart["type"], "box_and_whisker")
        box = chart["elements"][0]
        self.assertEqual((box["min"], box["median"], box["max"], box["outliers"]), (1, 3, 4, [100]))

    def test_angles_are_round(self):
        chart = self.chart("plt.pie([90, 10], labels=['No', 'Yes'], startangle=90)")
        self.assertEqual([part["angle"] for part in chart["elements"]], [324, 36])

    def test_pictures_are_shown(self):
        picture = "from PIL import Image\npicture = Image.new('RGBA', (4, 4))\n"
        for code in ("picture.show()", "picture.save('/tmp/picture.png')", "import pathlib; picture.save(pathlib.Path('/tmp/p.png'))"):
            shown = self.run_ok(picture + code).all("display")
            self.assertEqual(len(shown), 1, code)
            self.assertTrue(base64.b64decode(shown[0]["data"]["image/png"]).startswith(b"\x89PNG"))
        self.assertIn("image/png", self.run_ok(picture + "picture").result["data"])
        self.assertEqual(self.run_ok(picture + "import io; picture.save(io.BytesIO(), 'png')").all("display"), [])
        outcome = self.run_ok("plt.plot([1, 2]); plt.savefig('/tmp/figure.png')")
        self.assertEqual(["e2b/chart" in event["data"] for event in outcome.all("display")], [True])

    def test_several_axes_and_unknown(self):
        chart = self.chart("f, (a, b) = plt.subplots(1, 2)\na.plot([1], [1])\nb.imshow([[1, 2]])\nf.suptitle('S');")
        self.assertEqual((chart["type"], chart["title"]), ("superchart", "S"))
        self.assertEqual([e["type"] for e in chart["elements"]], ["line", "unknown"])

    def test_show_emits_at_once_and_once(self):
        outcome = self.run_ok("plt.plot([1, 2])\nplt.show()\nprint('after')")
        self.assertEqual([e["ev"] for e in outcome.events], ["display", "stdout", "done"])

    def test_figure_as_last_expression_comes_once(self):
        outcome = self.run_ok("fig, ax = plt.subplots()\nax.plot([1, 2])\nfig")
        self.assertEqual([e["ev"] for e in outcome.events], ["result", "done"])
        self.assertIn("image/png", outcome.result["data"])
        self.assertEqual(self.run_ok("plt.get_fignums()").plain, "[]")

    def test_figures_show_although_the_cell_failed(self):
        outcome = self.context.run("plt.plot([1, 2])\n1 / 0")
        self.assertEqual([e["ev"] for e in outcome.events], ["display", "error", "done"])

    def test_inline_settings(self):
        self.run_ok("%matplotlib inline\n%config InlineBackend.figure_format = 'svg'")
        outcome = self.run_ok("plt.plot([1, 2]);")
        self.run_ok("%config InlineBackend.figure_format = 'png'")
        self.assertIn("<svg", outcome.all("display")[0]["data"]["image/svg+xml"])


class Life(ContextTest):
    def test_park_tells_what_is_open(self):
        before = self.context.ask("park", "parked")
        self.assertEqual((before["threads"], before["tasks"]), ([], 1))
        self.run_ok("import asyncio\nawait asyncio.sleep(0)")
        self.run_ok("%%bash\ntrue")
        self.run_ok(
            "import os, threading\nos.umask(0o27)\nos.chdir('/tmp')\nf = open('/etc/passwd')\n"
            "stop = threading.Event()\nthreading.Thread(target=stop.wait, name='waiter').start()"
        )
        parked = self.context.ask("park", "parked")
        self.assertEqual((parked["cwd"], parked["umask"], parked["threads"], parked["tasks"]), ("/tmp", 0o27, ["waiter"], 2))
        extra = [d["target"] for d in parked["descriptors"] if d not in before["descriptors"]]
        self.assertEqual(extra, ["/etc/passwd"])
        self.run_ok("stop.set()\nf.close()")
        self.assertEqual(self.run_ok("await asyncio.sleep(0, 4)").plain, "4")

    def test_wake_changes_environment_and_reseeds(self):
        self.run_ok("import os, random, uuid, tempfile\nos.environ['GONE'] = '1'\nrandom.seed(1)\nfirst = random.random()\nrandom.seed(1)")
        awake = self.context.ask("wake", "awake", entropy="00ff", cwd="/usr", env={"NEW": "é"}, unset=["GONE", "NEVER"])
        self.assertEqual(awake, {"ev": "awake"})
        self.assertEqual(self.run_ok("os.environ['NEW'], os.environ.get('GONE'), os.getcwd(), random.random() == first").plain,
                         "('é', None, '/usr', False)")
        self.assertIn("problem", self.context.ask("wake", "awake", entropy="", cwd="/no/such/folder", env={}, unset=[]))

    def test_wake_installs_signal_handlers_again(self):
        self.run_ok(
            "import signal, ctypes\nhits = []\nsignal.signal(signal.SIGUSR1, lambda *a: hits.append(1));\n"
            "ctypes.CDLL(None).signal(int(signal.SIGUSR1), ctypes.c_void_p(1));"
        )
        self.context.ask("wake", "awake", entropy="", cwd=None, env={}, unset=[])
        self.assertEqual(self.run_ok("import os\nos.kill(os.getpid(), signal.SIGUSR1)\nhits").plain, "[1]")

    def test_context_ends_with_its_host(self):
        other = python_context()
        other.sock.close()
        self.assertEqual(other.process.wait(10), 0)
        other.close()


class Unfit(unittest.TestCase):
    def test_no_ipython_is_said(self):
        import wire
        real = wire.python_sources
        wire.python_sources = lambda: {**real(), "shell": "raise ImportError('No module named IPython')"}
        try:
            context = python_context()
        finally:
            wire.python_sources = real
        self.assertEqual(context.ready["ev"], "unfit")
        self.assertEqual(context.process.wait(10), 1)
        context.close()


def large_pages_to_be_had():
    """How many of eight large pages the kernel gives to a process that does nothing else."""
    code = (
        "import ctypes, mmap\n"
        "memory = mmap.mmap(-1, 20 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "memory.write(b'a' * (20 << 20))\n"
        "start = -(-ctypes.addressof(ctypes.c_char.from_buffer(memory)) // (2 << 20)) * (2 << 20)\n"
        "madvise = ctypes.CDLL(None).madvise\n"
        "madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]\n"
        "print(sum(madvise(start + (at << 21), 2 << 20, 25) == 0 for at in range(8)))\n"
    )
    done = subprocess.run([*python_command(), "-c", code], capture_output=True, check=True)
    return int(done.stdout)


@unittest.skipUnless(IPYTHON, "the Python under test has no IPython")
class Forked(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.zygote = Zygote(WARM)
        assert cls.zygote.ready["ev"] == "ready", cls.zygote.ready

    @classmethod
    def tearDownClass(cls):
        cls.zygote.close()

    def fork(self):
        context = self.zygote.fork()
        self.addCleanup(context.close)
        return context

    def test_children_are_fresh_and_apart(self):
        one, two = self.fork(), self.fork()
        self.assertEqual(one.run("x = 1\nprint(x)").done["count"], 1)
        self.assertEqual(two.run("x").error["name"], "NameError")
        self.assertEqual(two.run("[n for n in dir() if not n.startswith('_')]").plain,
                         self.fork().run("[n for n in dir() if not n.startswith('_')]").plain)

    def test_warm_up_leaves_nothing(self):
        context = self.fork()
        names = context.run("sorted(n for n in globals() if not n.startswith('_'))").plain
        self.assertEqual(names, "['In', 'Out', 'exit', 'get_ipython', 'open', 'quit']")
        self.assertEqual(context.run("import linecache\nlen([n for n in linecache.cache if 'ipython-input' in n])").plain, "2")
        self.assertEqual(context.run("len(In), len(Out), _").plain, "(4, 2, 2)")
        self.assertEqual(context.run("import os\n[n for n in os.environ if n.endswith('NUM_THREADS')]").plain, "[]")
        self.assertEqual(context.run("import gc\ngc.isenabled()").plain, "True")

    def test_children_draw_different_numbers(self):
        code = (
            "import random, uuid, tempfile, sys, os, multiprocessing as m\n"
            "numbers = [random.random(), uuid.uuid1().node, uuid.uuid1().clock_seq, next(tempfile._get_candidate_names()), bytes(m.current_process().authkey).hex()]\n"
            "if 'numpy' in sys.modules:\n    import numpy\n    numbers.append(float(numpy.random.random()))\n"
            "numbers"
        )
        one, two = (self.fork().run(code).result["data"]["application/json"] for _ in range(2))
        for a, b in zip(one, two):
            self.assertNotEqual(a, b)

    def test_park_shows_nothing_open(self):
        parked = self.fork().ask("park", "parked")
        self.assertEqual((parked["threads"], parked["tasks"]), ([], 1))

    def test_unfinished_line_and_interrupt_work_in_a_child(self):
        context = self.fork()
        context.begin("import time\nprint('x', end='')\ntime.sleep(60)")
        self.assertEqual(context.receive()["text"], "x")
        os.kill(context.ready["pid"], signal.SIGINT)
        self.assertEqual(context.until("done")[-2]["name"], "KeyboardInterrupt")

    @unittest.skipUnless(MATPLOTLIB, "the Python under test has no matplotlib")
    def test_figure_in_a_child(self):
        outcome = self.fork().run("import matplotlib.pyplot as plt\nplt.boxplot([[1, 2, 3]])\nplt.show()")
        self.assertEqual(outcome.all("display")[0]["data"]["e2b/chart"]["type"], "box_and_whisker")

    @unittest.skipUnless(LARGE_PAGES, "the kernel joins no pages")
    def test_children_share_large_pages_and_write_to_small_ones(self):
        zygote = Zygote("import builtins\nbuiltins.held = bytearray(b'ab' * (8 << 20))")
        self.addCleanup(zygote.close)
        one, two = zygote.fork(), zygote.fork()
        self.addCleanup(one.close)
        self.addCleanup(two.close)
        large = "sum(int(line.split()[1]) for line in open('/proc/self/smaps') if line.startswith('AnonHugePages'))"
        found = int(two.run(large).plain)
        if found < 8 << 10 and large_pages_to_be_had() < 4:
            self.skipTest("the host has no memory in large pages left")
        self.assertGreaterEqual(found, 8 << 10)
        copied = "int(next(line for line in open('/proc/self/smaps_rollup') if line.startswith('Private_Dirty')).split()[1])"
        before = int(one.run(copied).plain)
        self.assertEqual(one.run("held[::4 << 20] = b'1234'\nbytes(held[::4 << 20])").plain, "b'1234'")
        self.assertLess(int(one.run(copied).plain) - before, 1 << 10)
        self.assertEqual(two.run("bytes(held[::4 << 20]), held.count(b'ab')").plain, f"(b'aaaa', {8 << 20})")

    def test_threads_make_a_zygote_unfit(self):
        zygote = Zygote("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()")
        self.assertEqual(zygote.ready["ev"], "unfit")
        self.assertIn("threads", zygote.ready["reason"])
        zygote.close()
        zygote = Zygote("import no_such_module")
        self.assertIn("no_such_module", zygote.ready["reason"])
        zygote.close()


if __name__ == "__main__":
    unittest.main()
