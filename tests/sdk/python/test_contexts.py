"""What becomes of code when its context, its interpreter or its client goes."""

import threading
import time
import uuid

import pytest
from e2b.exceptions import SandboxException, TimeoutException
from e2b_code_interpreter import Sandbox

covers = pytest.mark.covers


class Later(threading.Thread):
    """A call that runs beside the test; `result()` waits for it."""

    def __init__(self, call, *args, **kwargs):
        super().__init__(daemon=True)
        self.work, self.outcome, self.error = (call, args, kwargs), None, None
        self.start()

    def run(self):
        call, args, kwargs = self.work
        try:
            self.outcome = call(*args, **kwargs)
        except Exception as error:
            self.error = error

    def result(self):
        self.join(60)
        assert not self.is_alive(), "still running"
        if self.error:
            raise self.error
        return self.outcome


def long_code(interpreter, **where):
    """Code that runs until something ends it, and has begun."""
    begun = threading.Event()
    code = "import time; print('begun', flush=True); time.sleep(600)"
    running = Later(interpreter.run_code, code, on_stdout=lambda _: begun.set(), **where)
    assert begun.wait(60)
    return running


@covers("Interpreter.restart_code_context")
def test_a_restart_ends_what_runs_with_an_error_that_says_so(interpreter):
    context = interpreter.create_code_context()
    running = long_code(interpreter, context=context)
    interpreter.restart_code_context(context)
    execution = running.result()
    assert (execution.error.name, execution.logs.stdout) == ("ContextRestarting", ["begun\n"])
    assert interpreter.run_code("1 + 1", context=context).execution_count == 1


@covers("Interpreter.remove_code_context")
def test_a_removal_ends_what_runs(interpreter):
    context = interpreter.create_code_context()
    running = long_code(interpreter, context=context)
    interpreter.remove_code_context(context)
    assert running.result().error.name == "UnexpectedEndOfExecution"


@covers("Interpreter.run_code")
@pytest.mark.parametrize("death, word", [("import os; os._exit(3)", "exit"), ("a = [bytes([1]) * 2**20 for _ in range(2**20)]", "oom")])
def test_an_interpreter_that_dies_is_replaced(interpreter, death, word):
    interpreter.run_code("precious = 1")
    error = interpreter.run_code(death).error
    assert error.name == "ContextRestarting" and word in error.value
    assert interpreter.run_code("precious").error.name == "NameError"


@covers("Interpreter.run_code")
def test_a_death_between_executions_is_told_by_the_next_error(interpreter):
    end, lock = f"/tmp/{uuid.uuid4()}", f"/tmp/{uuid.uuid4()}"
    code = (
        "import fcntl, os, threading, time\nprecious = 1\n"
        f"held = open('{lock}', 'w')\nfcntl.flock(held, fcntl.LOCK_EX)\ndef die():\n"
        f"    while not os.path.exists('{end}'): time.sleep(0.02)\n    os._exit(0)\n"
        "threading.Thread(target=die).start()"
    )
    assert interpreter.run_code(code).error is None
    # Between two executions: the kernel lets go of the lock when the interpreter is dead.
    interpreter.files.write(end, "")
    wait = f"import fcntl; fcntl.flock(open('{lock}'), fcntl.LOCK_EX)"
    interpreter.commands.run(f'python3 -c "{wait}"')
    # The server may be about to start the next interpreter.
    while (error := interpreter.run_code("precious").error).name == "ContextRestarting":
        time.sleep(0.02)
    assert error.name == "NameError" and "was restarted" in error.traceback
    assert "was restarted" not in interpreter.run_code("precious").error.traceback


@covers("Interpreter.run_code")
def test_executions_take_turns_in_a_context(interpreter):
    context = interpreter.create_code_context()
    # Without turns, one would read what another has not written back yet.
    interpreter.run_code("import time; total = 0", context=context)
    code = "seen = total; time.sleep(0.2); total = seen + 1"
    for each in [Later(interpreter.run_code, code, context=context) for _ in range(5)]:
        assert each.result().error is None
    assert interpreter.run_code("total", context=context).text == "5"


@covers("Interpreter.run_code")
def test_who_leaves_the_queue_does_not_disturb_who_runs(interpreter):
    begun = threading.Event()
    end = f"/tmp/{uuid.uuid4()}"
    wait = f"while not os.path.exists('{end}'): time.sleep(0.02)"
    code = f"import os, time\nprint('begun', flush=True)\n{wait}\n'finished'"
    first = Later(interpreter.run_code, code, on_stdout=lambda _: begun.set())
    assert begun.wait(60)
    with pytest.raises(TimeoutException):
        interpreter.run_code("1", timeout=1)
    interpreter.files.write(end, "")
    assert first.result().text == "finished"


@covers("Interpreter.run_code")
def test_code_that_only_prints_is_interrupted_too(interpreter):
    with pytest.raises(TimeoutException):
        interpreter.run_code("while True: print('more')", timeout=1)
    assert interpreter.run_code("1 + 1", timeout=60).text == "2"


@covers("Interpreter.run_code")
def test_a_language_that_is_not_there_is_named(interpreter):
    with pytest.raises(SandboxException, match="cobol"):
        interpreter.run_code("1", language="cobol")


@covers("Interpreter.run_code", "Sandbox.create_snapshot")
def test_a_copy_has_the_same_contexts_and_its_own_environment():
    original = Sandbox.create(timeout=300, envs={"WHO": "original"})
    copy = None
    try:
        context = original.create_code_context(cwd="/tmp")
        original.run_code("here = 1", context=context)
        last = original.run_code("there = 2")
        snapshot = original.create_snapshot()
        copy = Sandbox.create(snapshot.snapshot_id, timeout=300, envs={"WHO": "copy"})
        assert context.id in [each.id for each in copy.list_code_contexts()]
        assert copy.run_code("here", context=context).text == "1"
        execution = copy.run_code("import os; there, os.environ['WHO']")
        assert execution.text == "(2, 'copy')"
        assert execution.execution_count == last.execution_count + 1
    finally:
        original.kill()
        if copy:
            copy.kill()


@covers("Interpreter.run_code")
def test_the_end_of_a_sandbox_is_no_end_of_code():
    sandbox = Sandbox.create(timeout=300)
    running = long_code(sandbox)
    sandbox.kill()
    with pytest.raises(TimeoutException, match="sandbox was killed"):
        running.result()
