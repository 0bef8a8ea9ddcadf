"""The contexts that read fields: Bash, R and Java, from the host's side of the socket.

BELLJAR_TEST_INSIDE is the command that runs programs of the template; without
it those of this host are tested, as far as there are any.
"""

import base64
import os
import shutil
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import PATIENCE, fields_context, inside, rest


class FieldsTest(unittest.TestCase):
    language = program = None

    @classmethod
    def setUpClass(cls):
        if not inside() and not shutil.which(cls.program):
            raise unittest.SkipTest(f"there is no {cls.program}")
        cls.context = fields_context(cls.language)

    @classmethod
    def tearDownClass(cls):
        cls.context.close()

    def run_ok(self, code, **options):
        outcome = self.context.run(code, **options)
        self.assertTrue(outcome.done["ok"], outcome.events)
        self.assertIsNone(outcome.error)
        return outcome

    def fails(self, code, **options):
        outcome = self.context.run(code, **options)
        self.assertFalse(outcome.done["ok"], outcome.events)
        self.assertEqual(len(outcome.all("error")), 1)
        return outcome

    def interrupted(self, code):
        """Interrupts a cell that says when it has begun."""
        self.context.begin(code)
        self.context.wait_for("go")
        os.kill(self.context.ready["pid"], signal.SIGINT)
        outcome = self.context.finish()
        self.assertFalse(outcome.done["ok"])
        return outcome.error


class Bash(FieldsTest):
    language = program = "bash"

    def test_state_stays(self):
        self.run_ok("x=5; cd /usr; f() { echo fun $x; }; shopt -s nullglob; alias hi='echo aliased'")
        self.assertEqual(self.run_ok("f; pwd; shopt -q nullglob && hi").text(), "fun 5\n/usr\naliased\n")
        self.run_ok("shopt -u nullglob; unalias hi; cd /")

    def test_streams(self):
        outcome = self.run_ok("echo out; echo err >&2; printf 'é\\n'")
        self.assertEqual((outcome.text(), outcome.text("stderr")), ("out\né\n", "err\n"))
        self.assertIsNone(outcome.result)

    def test_a_status_is_an_error_of_the_cell_only(self):
        outcome = self.fails("echo before; false")
        self.assertEqual((outcome.text(), outcome.error["name"], outcome.error["value"]), ("before\n", "ExitStatus", "1"))
        self.assertEqual(self.run_ok("echo $?").text(), "1\n")
        self.assertEqual(self.fails("if then").error["value"], "2")
        self.assertEqual(self.fails("no-such-command").error["value"], "127")

    def test_exit_ends_the_cell_only(self):
        self.run_ok("kept=1")
        outcome = self.fails("echo a; f() { exit 3; }; f; echo no")
        self.assertEqual((outcome.text(), outcome.text("stderr"), outcome.error["value"]), ("a\n", "", "3"))
        self.assertEqual(self.run_ok("echo b; exit 0; echo no").text(), "b\n")
        self.assertEqual(self.run_ok("(exit 4); echo $? $kept; echo e >&2").text(), "4 1\n")

    def test_errexit(self):
        outcome = self.fails("set -eo pipefail\necho a\ng() { false; echo no; }\ng\necho no")
        self.assertEqual((outcome.text(), outcome.error["value"]), ("a\n", "1"))
        self.assertEqual(self.fails("if false; then :; fi; echo b; (exit 7); echo no").error["value"], "7")
        self.assertEqual(self.run_ok("set +e; false; echo c").text(), "c\n")
        self.assertEqual(self.fails("set -u; echo $no_such\necho no").text(), "")
        self.run_ok("set +u")

    def test_environment_of_a_cell(self):
        self.run_ok("plain=p; export shared=s")
        env = {"FOO": "b'ar \"é\n$x", "plain": "1", "shared": "2", "not a name": "3"}
        self.assertEqual(self.run_ok('printf "%s|" "$FOO" $plain $shared; sh -c \'echo $plain$shared\'', env=env).text(), "b'ar \"é\n$x|1|2|12\n")
        self.assertEqual(self.run_ok("echo ${FOO-none} $plain $shared; sh -c 'echo $plain$shared'").text(), "none p s\ns\n")

    def test_cells_have_no_input_and_no_socket(self):
        self.assertEqual(self.run_ok("cat; read line || echo none").text(), "none\n")
        self.assertNotIn("socket", self.run_ok("ls -l /proc/self/fd").text())

    def test_here_documents_comments_and_nothing(self):
        self.assertEqual(self.run_ok("cat <<END\nx $((1 + 1))\nEND").text(), "x 2\n")
        self.run_ok("# nothing")
        self.run_ok("")

    def test_large_cells(self):
        self.assertEqual(self.run_ok("x='" + "é" * 50_000 + "'; echo ${#x}").text(), "50000\n")

    def test_interrupts(self):
        for code in ("echo go; while :; do :; done", "f() { echo go; for ((;;)); do x=$((x + 1)); done; }\nf\necho no"):
            self.assertEqual(self.interrupted(code)["value"], "130")
            self.assertEqual(self.run_ok("echo on").text(), "on\n")
        os.kill(self.context.ready["pid"], signal.SIGINT)
        rest(self.context.ready["pid"])
        self.assertEqual(self.run_ok("echo idle").text(), "idle\n")

    def test_context_ends_with_its_host(self):
        other = fields_context("bash")
        other.sock.close()
        self.assertEqual(other.process.wait(PATIENCE), 0)
        other.close()


class R(FieldsTest):
    language, program = "r", "R"

    def test_state_output_and_results(self):
        outcome = self.run_ok("x <- 20\nf <- function(n) n * x\nprint(\"Hello, World!\")")
        self.assertEqual([e["text"] for e in outcome.all("stdout")], ['[1] "Hello, World!"\n'])
        self.assertIsNone(outcome.result)
        self.assertEqual(self.run_ok("f(2) + 2").plain, "[1] 42")
        outcome = self.run_ok("1; invisible(2); 'é\"\\n'")
        self.assertEqual((len(outcome.all("display")), outcome.plain), (1, '[1] "é\\"\\n"'))

    def test_environment_of_a_cell(self):
        Sys = "Sys.getenv(c('FOO', 'LANG'), unset = 'none', names = FALSE)"
        before = self.run_ok(Sys).plain
        self.assertEqual(self.run_ok(Sys, env={"FOO": "b'a", "LANG": "x"}).plain, '[1] "b\'a" "x"  ')
        self.assertEqual(self.run_ok(Sys).plain, before)

    def test_errors_and_warnings(self):
        error = self.fails("f <- function() stop('bad')\nf()").error
        self.assertEqual((error["name"], error["value"]), ("simpleError", "bad"))
        self.assertIn("unexpected", self.fails("1 +* 2").error["value"])
        self.assertIn("careful", self.run_ok("warning('careful'); invisible()").text("stderr"))

    def test_a_plot_is_shown(self):
        shown = self.run_ok("plot(1:3)").all("display")
        self.assertTrue(base64.b64decode(shown[-1]["data"]["image/png"]).startswith(b"\x89PNG"))
        self.assertEqual(self.run_ok("1").all("display"), [])

    def test_interrupt(self):
        self.assertEqual(self.interrupted("cat('go\\n'); flush(stdout()); repeat {}")["name"], "Interrupted")
        self.assertEqual(self.run_ok("6 * 7").plain, "[1] 42")


class Java(FieldsTest):
    language = program = "java"

    def test_state_output_and_results(self):
        outcome = self.run_ok('int x = 40; int f(int n) {\n  return n + x;\n}\nSystem.out.println("é");')
        self.assertEqual((outcome.text(), outcome.result), ("é\n", None))
        self.assertEqual(self.run_ok("f(2)").plain, "42")
        self.assertEqual(self.run_ok('List.of(1, 2).stream().map(n -> n + "a").collect(Collectors.joining())').plain, '"1a2a"')

    def test_environment_is_properties(self):
        code = 'System.getProperty("FOO", "none") + System.getProperty("PATH").isEmpty()'
        self.assertEqual(self.run_ok(code, env={"FOO": "bar"}).plain, '"barfalse"')
        self.assertEqual(self.run_ok(code).plain, '"nonefalse"')

    def test_errors(self):
        error = self.fails("int[] a = {1};\na[3]").error
        self.assertEqual(error["name"], "ArrayIndexOutOfBoundsException")
        self.assertIn("incompatible types", self.fails('int y = "s";').error["value"])

    def test_interrupt(self):
        self.assertEqual(self.interrupted("System.out.println(\"go\"); System.out.flush(); while (true) {}")["name"], "Interrupted")
        self.assertEqual(self.run_ok("6 * 7").plain, "42")


if __name__ == "__main__":
    unittest.main()
