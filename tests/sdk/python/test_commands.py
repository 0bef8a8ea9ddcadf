"""Commands: what they print, how they end, and what can be done to them while they run."""

import time
import uuid

import pytest
from e2b import CommandExitException, NotFoundException, TimeoutException
from e2b.exceptions import AuthenticationException, InvalidArgumentException

covers = pytest.mark.covers


@covers("Commands.run")
def test_a_command_gives_both_streams_and_its_code(sandbox):
    result = sandbox.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code, result.error) == ("out\n", "err\n", 0, None)


@covers("Commands.run")
def test_a_failing_command_raises_with_everything_it_said(sandbox):
    with pytest.raises(CommandExitException) as failure:
        sandbox.commands.run("echo before; echo why >&2; exit 7")
    assert (failure.value.exit_code, failure.value.stdout, failure.value.stderr) == (7, "before\n", "why\n")
    assert failure.value.error == "exit status 7"


@covers("Commands.run")
def test_output_keeps_every_character(sandbox):
    text = "grüße \u2028 日本語 🦀"
    assert sandbox.commands.run(f"printf '%s' '{text}'").stdout == text


@covers("Commands.run")
def test_a_megabyte_arrives_whole(sandbox):
    result = sandbox.commands.run("head -c 1000000 /dev/zero | tr '\\0' x")
    assert len(result.stdout) == 1_000_000 and set(result.stdout) == {"x"}


@covers("Commands.run")
def test_environment_directory_and_user_are_as_asked(sandbox):
    result = sandbox.commands.run("echo $GREETING; pwd; id -un; echo $HOME", envs={"GREETING": "hi"}, cwd="/tmp")
    assert result.stdout.split() == ["hi", "/tmp", "user", "/home/user"]


@covers("Commands.run")
def test_the_default_directory_is_the_home(sandbox):
    assert sandbox.commands.run("pwd").stdout == "/home/user\n"


@covers("Commands.run")
def test_variables_of_the_sandbox_reach_commands_and_give_way_to_theirs(fresh):
    sandbox = fresh(envs={"COLOUR": "red", "SHAPE": "round"})
    result = sandbox.commands.run("echo $COLOUR $SHAPE", envs={"SHAPE": "flat"})
    assert result.stdout == "red flat\n"


@covers("Commands.run")
def test_a_missing_directory_and_a_missing_user_are_named(sandbox):
    with pytest.raises(InvalidArgumentException, match="/nowhere"):
        sandbox.commands.run("true", cwd="/nowhere")
    with pytest.raises(AuthenticationException, match="nobody-here"):
        sandbox.commands.run("true", user="nobody-here")


@covers("Commands.run", "CommandHandle.wait")
def test_output_streams_while_the_command_runs(sandbox):
    seen, heard = [], f"/tmp/{uuid.uuid4()}"

    def on_stdout(text):
        seen.append(text)
        sandbox.files.write(heard, "")

    # It goes on only when its first line was heard.
    handle = sandbox.commands.run(f"echo one; until [ -e {heard} ]; do sleep 0.02; done; echo two", background=True)
    handle.wait(on_stdout=on_stdout)
    assert "".join(seen) == "one\ntwo\n"


@covers("Commands.run")
def test_a_command_that_takes_too_long_times_out_and_is_ended(sandbox):
    with pytest.raises(TimeoutException):
        sandbox.commands.run("exec -a too-long sleep 600", timeout=1)
    deadline = time.monotonic() + 60
    while any("too-long" in " ".join(process.args) for process in sandbox.commands.list()):
        assert time.monotonic() < deadline, "the command outlived its time"


@covers("Commands.run", "Commands.list", "Commands.kill")
def test_a_running_command_is_listed_until_it_is_killed(sandbox):
    handle = sandbox.commands.run("sleep 60", background=True, envs={"MARK": "1"}, cwd="/tmp")
    entry = next(process for process in sandbox.commands.list() if process.pid == handle.pid)
    assert entry.cmd == "/bin/bash" and entry.args[-1] == "sleep 60"
    assert entry.envs.get("MARK") == "1" and entry.cwd == "/tmp"
    assert sandbox.commands.kill(handle.pid) is True
    with pytest.raises(CommandExitException) as end:
        handle.wait()
    assert end.value.exit_code == -1 and end.value.error == "signal: killed"
    assert handle.pid not in [process.pid for process in sandbox.commands.list()]


@covers("Commands.kill")
def test_killing_what_is_not_there_says_so(sandbox):
    assert sandbox.commands.kill(999_999) is False


@covers("CommandHandle.kill")
def test_a_handle_kills_its_command_once(sandbox):
    handle = sandbox.commands.run("sleep 60", background=True)
    assert handle.kill() is True
    with pytest.raises(CommandExitException):
        handle.wait()
    assert handle.kill() is False


@covers("Commands.connect", "CommandHandle.disconnect")
def test_a_command_survives_a_disconnect_and_can_be_met_again(sandbox):
    met = f"/tmp/{uuid.uuid4()}"
    handle = sandbox.commands.run(f"until [ -e {met} ]; do sleep 0.02; done; echo still here", background=True)
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)
    assert again.pid == handle.pid
    sandbox.files.write(met, "")
    assert again.wait().stdout == "still here\n"


@covers("Commands.connect")
def test_connecting_to_nothing_is_not_found(sandbox):
    with pytest.raises(NotFoundException):
        sandbox.commands.connect(999_999)


@covers("Commands.send_stdin", "Commands.close_stdin")
def test_input_reaches_a_command_and_its_end_too(sandbox):
    handle = sandbox.commands.run("cat; echo end", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "one\n")
    sandbox.commands.send_stdin(handle.pid, b"two\n")
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "one\ntwo\nend\n"


@covers("CommandHandle.send_stdin", "CommandHandle.close_stdin")
def test_a_handle_sends_input_too(sandbox):
    handle = sandbox.commands.run("wc -c", background=True, stdin=True)
    handle.send_stdin("12345")
    handle.close_stdin()
    assert handle.wait().stdout.strip() == "5"


@covers("Commands.run")
def test_without_input_a_command_reads_nothing(sandbox):
    assert sandbox.commands.run("cat; echo end").stdout == "end\n"


@covers("Commands.stream_input")
def test_a_stream_of_input_arrives_in_order(sandbox):
    handle = sandbox.commands.run("head -n 50 | sha256sum", background=True, stdin=True)
    sandbox.commands.stream_input(handle.pid, (f"line {n}\n" for n in range(50)))
    import hashlib

    want = hashlib.sha256("".join(f"line {n}\n" for n in range(50)).encode()).hexdigest()
    assert handle.wait().stdout.split()[0] == want


@covers("Commands.send_stdin")
def test_input_for_nobody_is_not_found(sandbox):
    with pytest.raises(NotFoundException):
        sandbox.commands.send_stdin(999_999, "x")
