"""Code in cells: results, state, streams, errors, contexts, charts."""

import base64
import uuid

import pytest
from e2b.exceptions import NotFoundException, TimeoutException

covers = pytest.mark.covers
run = covers("Interpreter.run_code")


@run
def test_the_last_expression_is_the_result(interpreter):
    execution = interpreter.run_code("x = 20\nx + 22")
    assert execution.text == "42" and execution.error is None
    assert [result.is_main_result for result in execution.results] == [True]


@run
def test_state_lasts_from_cell_to_cell_and_cells_are_counted(interpreter):
    first = interpreter.run_code("kept = 'state'")
    second = interpreter.run_code("kept")
    assert second.text == "state"
    assert second.execution_count == first.execution_count + 1


@run
def test_output_streams_while_the_cell_runs(interpreter):
    seen, heard = [], f"/tmp/{uuid.uuid4()}"

    def on_output(message):
        seen.append(message.line)
        interpreter.files.write(heard, "")

    # It goes on only when its first line was heard.
    wait = f"while not os.path.exists('{heard}'): time.sleep(0.02)"
    code = f"import os, sys, time\nprint('one', flush=True)\n{wait}\nprint('two')\nprint('oops', file=sys.stderr)"
    execution = interpreter.run_code(code, on_stdout=on_output, on_stderr=on_output)
    assert "".join(execution.logs.stdout) == "one\ntwo\n" and "".join(execution.logs.stderr) == "oops\n"
    assert sorted("".join(seen).split()) == ["one", "oops", "two"]


@run
def test_unusual_characters_survive(interpreter):
    text = "é\u2028\u0085日本語🦀"
    execution = interpreter.run_code(f"print({text!r}, end='')\n{text!r}")
    assert "".join(execution.logs.stdout) == text and execution.text == repr(text)[1:-1]


@run
def test_an_error_has_a_name_a_value_and_a_traceback(interpreter):
    errors = []
    execution = interpreter.run_code("def f():\n    return 1 / 0\nf()", on_error=errors.append)
    assert (execution.error.name, execution.error.value) == ("ZeroDivisionError", "division by zero")
    assert "return 1 / 0" in execution.error.traceback and len(errors) == 1
    assert interpreter.run_code("'alive'").text == "alive"


@run
def test_variables_of_a_cell_do_not_outlast_it(interpreter):
    read = "import os; os.environ.get('ONCE', 'unset')"
    assert interpreter.run_code(read, envs={"ONCE": "set"}).text == "set"
    assert interpreter.run_code(read).text == "unset"


@run
def test_cells_and_commands_share_files(interpreter):
    interpreter.run_code("open('/home/user/from_cell.txt', 'w').write('written in a cell')")
    assert interpreter.files.read("/home/user/from_cell.txt") == "written in a cell"


@run
def test_tables_come_as_html_and_data(interpreter):
    result = interpreter.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})").results[0]
    assert "<table" in result.html and result.data == {"a": [1, 2], "b": ["x", "y"]}


@run
def test_figures_come_as_pictures_and_charts(interpreter):
    execution = interpreter.run_code(
        "import matplotlib.pyplot as plt\n"
        "plt.plot([1, 2, 3], [1, 4, 9], label='squares')\n"
        "plt.title('Growth'); plt.xlabel('time (s)'); plt.ylabel('value')\nplt.show()"
    )
    assert execution.error is None
    [result] = [result for result in execution.results if result.png]
    assert base64.b64decode(result.png).startswith(b"\x89PNG")
    chart = result.chart
    assert (chart.type.value, chart.title, chart.x_label, chart.x_unit) == ("line", "Growth", "time (s)", "s")
    assert [(line.label, [tuple(point) for point in line.points]) for line in chart.elements] == [
        ("squares", [(1, 1), (2, 4), (3, 9)])
    ]


@run
def test_results_are_handed_over_as_they_come(interpreter):
    results = []
    interpreter.run_code("display({'a': 1})\ndisplay('second')\n3", on_result=results.append)
    assert [result.is_main_result for result in results] == [False, False, True]
    assert results[0].json == {"a": 1}


@run
def test_a_cell_that_takes_too_long_is_interrupted_and_state_stays(interpreter):
    interpreter.run_code("survivor = 'still here'")
    with pytest.raises(TimeoutException):
        interpreter.run_code("import time\ntime.sleep(600)", timeout=1)
    assert interpreter.run_code("survivor", timeout=60).text == "still here"


@run
def test_other_languages_run_too(interpreter):
    assert interpreter.run_code("const n = 6; n * 7", language="javascript").text == "42"
    assert "".join(interpreter.run_code("echo from $((40 + 2))", language="bash").logs.stdout) == "from 42\n"


@covers("Interpreter.create_code_context", "Interpreter.run_code")
def test_a_context_has_its_own_state_and_directory(interpreter):
    context = interpreter.create_code_context(cwd="/tmp", language="python")
    assert (context.language, context.cwd) == ("python", "/tmp")
    interpreter.run_code("only_here = 1", context=context)
    assert interpreter.run_code("import os; os.getcwd()", context=context).text == "/tmp"
    assert interpreter.run_code("only_here").error.name == "NameError"
    assert interpreter.run_code("only_here", context=context).text == "1"


@covers("Interpreter.list_code_contexts", "Interpreter.remove_code_context")
def test_contexts_are_listed_until_they_are_removed(interpreter):
    context = interpreter.create_code_context()
    listed = {entry.id: entry for entry in interpreter.list_code_contexts()}
    assert listed[context.id].language == "python"
    assert {"python", "javascript"} <= {entry.language for entry in listed.values()}
    interpreter.remove_code_context(context)
    assert context.id not in [entry.id for entry in interpreter.list_code_contexts()]
    with pytest.raises(NotFoundException):
        interpreter.run_code("1", context=context)
    with pytest.raises(NotFoundException):
        interpreter.remove_code_context(context.id)


@covers("Interpreter.restart_code_context")
def test_a_restart_keeps_the_context_and_forgets_its_state(interpreter):
    context = interpreter.create_code_context(cwd="/tmp")
    interpreter.run_code("gone = 1", context=context)
    interpreter.restart_code_context(context)
    assert interpreter.run_code("gone", context=context).error.name == "NameError"
    assert interpreter.run_code("import os; os.getcwd()", context=context).text == "/tmp"
    with pytest.raises(NotFoundException):
        interpreter.restart_code_context("no-such-context")
