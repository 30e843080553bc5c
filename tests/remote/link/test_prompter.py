"""Nobody is asked to confirm a text that is too long to be read whole."""

from __future__ import annotations

import sys

import pytest

from remote.link.prompter import LONGEST, at_terminal, close_terminal, confirms
from tests.lab.answers import Person


@pytest.mark.parametrize(
    ("subject", "question"),
    [("./" * LONGEST + "data", "May it be sent?"), ("data", f"May it be sent to {'x' * LONGEST}?")],
    ids=["subject", "question"],
)
def test_a_text_that_is_too_long_is_not_confirmed(subject: str, question: str) -> None:
    user = Person()
    assert not confirms(user, subject, question)
    assert user.questions == []


def test_a_text_is_shown_whole_on_one_line() -> None:
    user = Person()
    assert confirms(user, "a\nb", "May it be sent?")
    assert user.questions == ["a\\nb.\nMay it be sent?"]
    assert not confirms(None, "a", "May it be sent?")


class Input:
    """Standard input that nobody reads."""

    def __init__(self, *, terminal: bool) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_SE_a_closed_terminal_answers_nothing_and_still_counts_as_one(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Input(terminal=terminal))
    for _ in range(2):
        close_terminal()
        assert at_terminal() is terminal
    assert not terminal or (not sys.stdin.isatty() and sys.stdin.read() == "")


def test_without_a_standard_input_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    close_terminal()
    assert not at_terminal()
