"""Prompts while connecting to a host. Without a Prompter, each prompt becomes an error with a hint."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Protocol

from remote.protocol.text import one_line

LONGEST = 1000
"""The largest number of characters of a text that a user is asked to confirm."""


class Prompter(Protocol):
    """The user at a terminal."""

    def confirm(self, question: str) -> bool:
        """Return True if the user answered yes; an empty answer means no."""
        ...

    def can_confirm(self) -> bool:
        """Return True if somebody can answer a question with yes or no."""
        ...

    def secret(self, prompt: str) -> str | None:
        """Return the user's input, which is not echoed, or None if it is empty."""
        ...


class ClosedTerminal(TextIOWrapper):
    """An empty standard input in place of the terminal."""


def close_terminal() -> None:
    """Replace a standard input that is a terminal by an empty one, so that nobody can answer a prompt."""
    if at_terminal():
        sys.stdin = ClosedTerminal(Path(os.devnull).open("rb"))  # noqa: SIM115 - stays open


def at_terminal() -> bool:
    """Return True if a person may have typed the command: stdin is a terminal, even if nothing is asked.

    With `--yes`, `--json` and `--no-input`, nothing is asked, but the command may have been repeated at a terminal.
    """
    return sys.stdin is not None and (sys.stdin.isatty() or isinstance(sys.stdin, ClosedTerminal))


def confirms(prompter: Prompter | None, subject: str, question: str) -> bool:
    """Return True if the user answers the question about `subject` with yes. Both are escaped, the subject to one line.

    Return False without a prompter, and without a question if one of the texts has more than LONGEST characters: a
    project could hide in a long text what the user confirms.
    """
    shown = one_line(subject)
    if prompter is None or max(len(shown), len(question)) > LONGEST:
        return False
    return prompter.confirm(f"{shown}.\n{question}")
