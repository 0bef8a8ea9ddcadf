"""Terminals: a login shell that knows its size and keeps its state."""

import pytest
from e2b import CommandExitException, PtySize

covers = pytest.mark.covers


def said(handle):
    """Everything the terminal shows until its shell ends."""
    output = []
    try:
        handle.wait(on_pty=lambda data: output.append(data))
    except CommandExitException:
        pass
    return b"".join(output).decode()


@covers("Pty.create", "Pty.send_stdin")
def test_a_terminal_is_a_shell_of_the_right_size(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=33, cols=101), cwd="/tmp", envs={"NAME": "glass"})
    sandbox.pty.send_stdin(terminal.pid, b"stty size; echo $TERM-$NAME-$PWD; exit\n")
    shown = said(terminal)
    assert "33 101" in shown and "xterm-256color-glass-/tmp" in shown


@covers("Pty.create")
def test_the_code_of_the_shell_is_told(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.send_stdin(terminal.pid, b"exit 5\n")
    with pytest.raises(CommandExitException) as end:
        terminal.wait()
    assert end.value.exit_code == 5


@covers("Pty.resize")
def test_a_terminal_takes_a_new_size(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.resize(terminal.pid, PtySize(rows=50, cols=132))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    assert "50 132" in said(terminal)


@covers("Pty.connect")
def test_a_terminal_keeps_its_state_when_it_is_met_again(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.send_stdin(terminal.pid, b"X=re; Y=membered\n")
    terminal.disconnect()
    again = sandbox.pty.connect(terminal.pid)
    assert again.pid == terminal.pid
    sandbox.pty.send_stdin(again.pid, b"echo $X$Y; exit\n")
    assert "remembered" in said(again)


@covers("Pty.kill")
def test_a_terminal_can_be_killed_once(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    assert sandbox.pty.kill(terminal.pid) is True
    with pytest.raises(CommandExitException):
        terminal.wait()
    assert sandbox.pty.kill(terminal.pid) is False


@covers("Pty.stream_input")
def test_keys_can_be_streamed(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.stream_input(terminal.pid, [b"A=str", b"eam; echo ", b"$A$A\n", b"exit\n"])
    assert "streamstream" in said(terminal)
