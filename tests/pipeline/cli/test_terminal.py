"""The terminal has its settings again when a command ends."""

from __future__ import annotations

import contextlib
import os
import pty
import termios

import pytest

from pipeline.cli.terminal import restored_terminal


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, None])
def test_the_echo_is_on_again_after_an_interrupted_question(
    monkeypatch: pytest.MonkeyPatch, ending: type[BaseException] | None
) -> None:
    controller, terminal = pty.openpty()
    with open(terminal, closefd=True) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        before = termios.tcgetattr(stdin)
        with contextlib.suppress(KeyboardInterrupt, SystemExit), restored_terminal():
            changed = termios.tcgetattr(stdin)
            changed[3] &= ~termios.ECHO
            termios.tcsetattr(stdin, termios.TCSANOW, changed)
            assert termios.tcgetattr(stdin) != before
            if ending is not None:
                raise ending
        assert termios.tcgetattr(stdin) == before
    os.close(controller)


def test_without_a_terminal_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with restored_terminal():
            pass
    monkeypatch.setattr("sys.stdin", None)
    with restored_terminal():
        pass
