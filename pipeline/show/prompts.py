"""Choose whether a command's questions are shown at the terminal or rejected."""

from __future__ import annotations

from typing import Protocol

from pipeline.show.screen import Screen
from remote.link.prompter import Prompter
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class SecretsOnly:
    """The prompter of `--yes`: it asks for passwords and passphrases only.

    Questions about trust in a host, key or file are answered with no.
    """

    screen: Screen

    def confirm(self, question: str) -> bool:
        """Return False."""
        del question
        return False

    def can_confirm(self) -> bool:
        """Return False."""
        return False

    def secret(self, prompt: str) -> str | None:
        """Return the typed text, which is not echoed, or None if nothing was typed."""
        return self.screen.secret(prompt)


def prompter_for(screen: Screen, *, yes: bool = False) -> Prompter | None:
    """Return the prompter that answers questions. With --json, return None: every question is then an error."""
    if screen.as_json:
        return None
    return SecretsOnly(screen) if yes else screen


class Questions(Protocol):
    """Asks the user questions."""

    def ask(self, question: str, *, default: str = "") -> str: ...

    def confirm(self, question: str, *, default: bool = False) -> bool: ...


class Defaults:
    """Answers every question with its default.

    Confirmations are answered with yes if `yes` is set, otherwise with no.
    """

    def __init__(self, *, yes: bool) -> None:
        self._yes = yes

    def ask(self, question: str, *, default: str = "") -> str:
        del question
        return default

    def confirm(self, question: str, *, default: bool = False) -> bool:
        del question, default
        return self._yes
