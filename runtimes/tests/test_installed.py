"""Packages that are installed for the user while a Python context runs."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_python import IPYTHON, ContextTest
from wire import Zygote, python_context

# Another process writes the files that `pip install --user` would write.
INSTALL = """
import subprocess, sys
source = '''
import os, sys
home, name, files = sys.argv[1], sys.argv[2], sys.argv[3:]
version = "python%d.%d" % sys.version_info[:2]
base = os.path.join(home, ".local", "lib", version, "site-packages")
os.makedirs(base, exist_ok=True)
for place in files or [name + ".py"]:
    path = os.path.join(base, place)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(os.path.join(base, name) if place.endswith(".pth") else "value = 42")
'''
def install(name, *files, home=None):
    import os
    home = home or os.environ["HOME"]
    subprocess.run([sys.executable, "-c", source, home, name, *files], check=True)
"""


class Installed(unittest.TestCase):
    def setUp(self):
        if not IPYTHON:
            raise unittest.SkipTest("the Python under test has no IPython")
        # Each has a home of its own in which nothing was ever installed.
        self.context = python_context()
        self.addCleanup(self.context.close)
        self.run_ok("import os, tempfile\nos.environ['HOME'] = tempfile.mkdtemp()")
        self.run_ok(INSTALL)

    run_ok = ContextTest.run_ok

    def test_an_import_in_the_same_cell_finds_it(self):
        outcome = self.run_ok("install('one')\nimport one\nprint(one.value)")
        self.assertEqual(outcome.text(), "42\n")

    def test_an_import_in_a_later_cell_finds_it(self):
        self.run_ok("install('first')\nimport first")
        self.run_ok("install('second')")
        self.assertEqual(self.run_ok("import second\nprint(second.value)").text(), "42\n")

    def test_editable_installs_are_found(self):
        self.run_ok("install('src', 'src.pth', 'src/edited.py')")
        self.assertEqual(self.run_ok("import edited\nprint(edited.value)").text(), "42\n")

    def test_a_command_makes_it_known_before_any_import(self):
        self.run_ok("install('listed')\n!true")
        outcome = self.run_ok("import site\nprint(site.getusersitepackages() in sys.path)")
        self.assertEqual(outcome.text(), "True\n")

    def test_the_users_packages_come_before_the_systems(self):
        self.run_ok("install('shadow')\n!true")
        outcome = self.run_ok(
            "import site\nnames = [os.path.basename(entry) for entry in sys.path]\n"
            "print(sys.path.index(site.USER_SITE) <= min(names.index(n) for n in names if n.endswith('-packages')))"
        )
        self.assertEqual(outcome.text(), "True\n")

    def test_nothing_installed_changes_nothing(self):
        before = self.run_ok("print(sys.path)").text()
        outcome = self.context.run("import no_such_module")
        self.assertFalse(outcome.done["ok"])
        self.assertEqual(self.run_ok("print(sys.path)").text(), before)


class InstalledInForks(unittest.TestCase):
    def test_a_fork_uses_the_home_that_it_wakes_with(self):
        if not IPYTHON:
            self.skipTest("the Python under test has no IPython")
        zygote = Zygote()
        self.addCleanup(zygote.close)
        first = zygote.fork()
        self.addCleanup(first.close)
        home = first.run("import tempfile\nprint(tempfile.mkdtemp())").text().strip()
        first.run(INSTALL + f"install('mine', home={home!r})")
        second = zygote.fork()
        self.addCleanup(second.close)
        second.send({"op": "wake", "env": {"HOME": home}, "copied": False})
        self.assertEqual(second.receive(), {"ev": "awake"})
        outcome = second.run("import site, mine\nprint(mine.value, site.getuserbase())")
        self.assertEqual(outcome.text(), f"42 {home}/.local\n", outcome.events)


if __name__ == "__main__":
    unittest.main()
