"""The JavaScript context, from the host's side of its socket.

BELLJAR_TEST_NODE is the command that starts the Node under test.
"""

import os
import shutil
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import PATIENCE, node_command, node_context, rest


@unittest.skipUnless(shutil.which(node_command()[0]), "there is no node")
class NodeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = node_context()

    @classmethod
    def tearDownClass(cls):
        cls.context.close()

    def run_ok(self, code, **options):
        outcome = self.context.run(code, **options)
        self.assertTrue(outcome.done["ok"], outcome.events)
        return outcome

    def fails(self, code, **options):
        outcome = self.context.run(code, **options)
        self.assertFalse(outcome.done["ok"])
        self.assertEqual(len(outcome.all("error")), 1)
        return outcome.error


class Cells(NodeTest):
    def test_output_and_result(self):
        outcome = self.run_ok("console.log('a', 1, {b: 2}); console.error('e'); 1 + 1")
        self.assertEqual([e["ev"] for e in outcome.events], ["stdout", "stderr", "result", "done"])
        self.assertEqual((outcome.text(), outcome.text("stderr"), outcome.plain), ("a 1 { b: 2 }\n", "e\n", "2"))
        self.assertEqual(outcome.result["count"], outcome.done["count"])

    def test_declarations_stay_and_may_be_repeated(self):
        self.run_ok("const a = 1; let b = 2; class C { x = 3 } function f() { return 4 } var v = 5")
        self.assertEqual(self.run_ok("[a, b, new C().x, f(), v]").result["data"]["application/json"], [1, 2, 3, 4, 5])
        self.run_ok("const a = 10; let b = 20; class C { x = 30 }")
        self.assertEqual(self.run_ok("a + b + new C().x").plain, "60")

    def test_await_at_top_level(self):
        self.assertEqual(self.run_ok("const w = await new Promise(r => setTimeout(() => r(7), 5)); w").plain, "7")
        self.assertEqual(self.run_ok("for await (const x of [1, 2]) console.log(x)").text(), "1\n2\n")

    def test_values(self):
        for code, text in (("'s'", "'s'"), ("NaN", "NaN"), ("10n", "10n"), ("Symbol('q')", "Symbol(q)"), ("null", "null"), ("-0", "-0"),
                           ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"), ("x => x", "[Function (anonymous)]")):
            self.assertEqual(self.run_ok(code).plain, text)
        self.assertIsNone(self.run_ok("undefined").result)
        self.assertNotIn("application/json", self.run_ok("const o = {}; o.o = o; o").result["data"])
        self.assertEqual(self.run_ok("({n: NaN})").result["data"]["application/json"], {"n": None})
        self.assertEqual(self.run_ok("'\\ud800'").plain.lower(), "'\\ud800'")
        self.assertEqual(self.run_ok("console.log('\\ud800x\\\\ud800')").text(), "\ufffdx\\ud800\n")

    def test_node_is_there(self):
        self.assertEqual(self.run_ok("const fs = require('fs'); typeof fs.readFileSync + typeof process.pid + typeof fetch").plain, "'functionnumberfunction'")

    def test_import(self):
        self.assertEqual(self.run_ok("const p = await import('path'); p.join('a', 'b')").plain, "'a/b'")
        self.assertEqual(self.run_ok("import os from 'os'\nimport { join as j, sep } from 'node:path';\nimport * as u from 'util'\ntypeof os.cpus + j('a', sep) + typeof u.inspect").plain, "'functiona/function'")
        self.assertEqual(self.run_ok("\"import x from 'y'\" // import('z')").plain, "\"import x from 'y'\"")

    def test_display(self):
        outcome = self.run_ok("display({a: 1}); display('<b>x</b>', 'text/html'); display(Buffer.from('png'), 'image/png');")
        first, second, third = outcome.all("display")
        self.assertEqual(first["data"]["application/json"], {"a": 1})
        self.assertEqual((second["data"], third["data"]), ({"text/html": "<b>x</b>"}, {"image/png": "cG5n"}))
        outcome = self.run_ok("({ [Symbol.for('Jupyter.display')]: () => ({ 'text/markdown': '**x**' }) })")
        self.assertEqual(outcome.result["data"], {"text/markdown": "**x**"})

    def test_large_values(self):
        self.assertEqual(len(self.run_ok("console.log('x'.repeat(3_000_000))").text()), 3_000_001)
        data = self.run_ok("display('x'.repeat(40_000_000), 'text/html')").all("display")[0]["data"]
        self.assertIn("text/html of 40000002 bytes", data["text/plain"])

    def test_environment_of_a_cell(self):
        code = "[process.env.FOO ?? null, process.env.PATH, process.env.B ?? null]"
        before = self.run_ok(code).result["data"]["application/json"]
        env = {"FOO": "bar", "PATH": "/x"}
        during = self.run_ok(f"process.env.B = 'kept'; {code}", env=env).result["data"]["application/json"]
        self.assertEqual(during, ["bar", "/x", "kept"])
        self.fails("throw 1", env=env)
        self.assertEqual(self.run_ok(code).result["data"]["application/json"], [None, before[1], "kept"])

    @unittest.skipUnless(os.environ.get("BELLJAR_TEST_TYPESCRIPT"), "this Node may lack it")
    def test_typescript(self):
        code = "import { join } from 'path'\ninterface P { x: number }\nenum Color { Red = 4 }\nconst p: P = { x: Color.Red }; p.x as number"
        self.assertEqual(self.run_ok(code, language="typescript").plain, "4")
        self.assertEqual(self.run_ok("join('a', 'b') + p.x", language="typescript").plain, "'a/b4'")
        self.assertEqual(self.fails("const n: = 4", language="typescript")["name"], "SyntaxError")

    def test_typescript_or_why_not(self):
        outcome = self.context.run("const n: number = 4; n", language="typescript")
        if outcome.done["ok"]:
            self.assertEqual(outcome.plain, "4")
        else:
            self.assertIn("TypeScript", outcome.error["value"])


# Another process writes the files that `npm install` would write.
INSTALL = """
function install(name, fields, text) {
  const source = `const fs = require('fs'), [name, fields, text] = process.argv.slice(1);
    fs.mkdirSync('node_modules/' + name + '/lib', { recursive: true });
    fs.writeFileSync('node_modules/' + name + '/package.json', fields);
    fs.writeFileSync('node_modules/' + name + '/lib/main.js', text)`;
  require('child_process').execFileSync(process.execPath, ['-e', source, name, JSON.stringify(fields), text]);
}
const common = [{ main: 'lib/main.js' }, 'module.exports = { value: 42 }'];
const modern = [{ type: 'module', exports: { import: './lib/main.js' } }, 'export default 42'];
install('early', ...common);
"""


class Installed(NodeTest):
    """Packages that are installed in the current directory while the context runs."""

    def setUp(self):
        self.context = node_context()
        self.addCleanup(self.context.close)
        # Node may be in another root, where the test's own directories are not.
        folder = self.run_ok("require('fs').mkdtempSync(require('os').tmpdir() + '/')").plain.strip("'")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.context.send({"op": "wake", "env": {}, "cwd": folder})
        self.assertEqual(self.context.receive(), {"ev": "awake"})
        self.run_ok(INSTALL)

    def test_require_finds_a_package_that_was_missing_before(self):
        self.assertIn("Cannot find module 'late'", self.fails("require('late')")["value"])
        self.assertEqual(self.run_ok("install('late', ...common); require('late').value").plain, "42")

    def test_import_finds_a_package_that_was_missing_before(self):
        self.assertIn("Cannot find module 'late'", self.fails("await import('late')")["value"])
        self.assertEqual(self.run_ok("install('late', ...common); (await import('late')).default.value").plain, "42")
        self.assertIn("Cannot find module '@a/late'", self.fails("import late from '@a/late'")["value"])
        self.run_ok("install('@a/late', ...modern)")
        self.assertEqual(self.run_ok("import late from '@a/late'\nlate").plain, "42")

    def test_import_finds_a_package_without_a_form_for_require(self):
        self.assertEqual(self.run_ok("install('esm', ...modern); (await import('esm')).default").plain, "42")

    def test_require_has_what_it_has_elsewhere(self):
        self.assertEqual(self.run_ok("require.resolve('early').endsWith('early/lib/main.js')").plain, "true")
        self.assertEqual(self.run_ok("require.resolve('early') in require.cache").plain, "false")
        self.assertEqual(self.run_ok("require('early') && require.cache[require.resolve('early')].loaded").plain, "true")
        error = self.fails("require.resolve('no-such-package')")
        self.assertIn("Cannot find module 'no-such-package'", error["value"])
        self.assertEqual(self.run_ok("try { require('nope') } catch (error) { console.log(error.code) }").text(), "MODULE_NOT_FOUND\n")


class Errors(NodeTest):
    def test_thrown(self):
        error = self.fails("function f() {\n  throw new TypeError('bad')\n}\nf()")
        self.assertEqual((error["name"], error["value"], error["traceback"][0]), ("TypeError", "bad", "TypeError: bad"))
        self.assertTrue(any("cell-" in line and ":2:" in line for line in error["traceback"]))
        self.assertFalse(any("belljar" in line or "inspector" in line for line in error["traceback"]))
        self.assertEqual(self.fails("throw 5")["value"], "5")

    def test_syntax(self):
        self.assertEqual(self.fails("let = = 1")["name"], "SyntaxError")

    def test_rejections(self):
        self.assertEqual(self.fails("await Promise.reject(new RangeError('r'))")["name"], "RangeError")
        self.assertEqual(self.fails("Promise.reject(new RangeError('loose')); 1")["value"], "loose")
        self.assertEqual(self.run_ok("1").plain, "1")

    def test_exception_in_a_timer(self):
        self.assertEqual(self.fails("setTimeout(() => { throw new Error('late') }, 1); await new Promise(r => setTimeout(r, 50))")["value"], "late")
        # Not before its cell is over.
        self.run_ok("process.once('SIGUSR2', () => setTimeout(() => { throw new Error('after') }, 1)); 0")
        os.kill(self.context.ready["pid"], signal.SIGUSR2)
        self.assertIn("after", self.context.until("stderr")[-1]["text"])

    def test_exit_does_not_end_the_context(self):
        self.assertEqual(self.fails("process.exit(3)")["name"], "ProcessExit")


class Life(NodeTest):
    def interrupted(self, code):
        self.context.begin(code)
        self.context.receive()
        # Not while Node changes its handlers; see the header of context.js.
        time.sleep(0.05)
        error, done = self.ended()[-2:]
        self.assertEqual((error["name"], done["ok"]), ("Interrupted", False))
        self.assertEqual(self.run_ok("6 * 7").plain, "42")

    def ended(self):
        # One that came while it changed them is lost; whoever waits sends another.
        over = threading.Event()

        def interrupt():
            while not over.is_set():
                os.kill(self.context.ready["pid"], signal.SIGINT)
                over.wait(3)

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            return self.context.until("done")
        finally:
            over.set()
            thread.join()

    def test_interrupts(self):
        for _ in range(3):
            self.interrupted("console.log('go'); while (true) {}")
            self.interrupted("console.log('go'); await new Promise(() => {})")
            self.interrupted("while (true) console.log('x'.repeat(50000))")
        os.kill(self.context.ready["pid"], signal.SIGINT)
        rest(self.context.ready["pid"])
        self.assertEqual(self.run_ok("1").plain, "1")

    def test_wake_and_park(self):
        self.assertEqual(self.context.ask("wake", "awake", entropy="00", cwd="/usr", env={"NEW": "é"}, unset=["HOME"]), {"ev": "awake"})
        self.assertEqual(self.run_ok("[process.env.NEW, process.env.HOME ?? null, process.cwd()]").result["data"]["application/json"], ["é", None, "/usr"])
        self.assertIn("problem", self.context.ask("wake", "awake", entropy="", cwd="/no/such", env={}, unset=[]))
        self.run_ok("const opened = require('fs').openSync('/etc/passwd'); 0")
        parked = self.context.ask("park", "parked")
        self.assertEqual((parked["cwd"], [d["target"] for d in parked["descriptors"]]), ("/usr", ["/etc/passwd"]))

    def test_children_do_not_get_the_socket(self):
        listing = self.run_ok("require('child_process').execSync('ls -l /proc/self/fd').toString()").plain
        self.assertNotIn(" 3 -> socket", listing)

    def test_context_ends_with_its_host(self):
        other = node_context()
        other.sock.close()
        self.assertEqual(other.process.wait(PATIENCE), 0)
        other.close()


if __name__ == "__main__":
    unittest.main()
