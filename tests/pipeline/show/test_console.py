"""Answers to questions, read from the terminal."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from pipeline.show.console import read_line


class _Interrupted(io.StringIO):
    def readline(self, size: int | None = -1, /) -> str:
        raise KeyboardInterrupt


def test_after_ctrl_c_at_a_question_the_next_message_begins_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdin", _Interrupted())
    with pytest.raises(KeyboardInterrupt):
        read_line(Console(file=shown))
    assert shown.getvalue() == "\n"


def test_an_answer_adds_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    assert read_line(Console(file=shown)) == "yes\n"
    assert shown.getvalue() == ""
