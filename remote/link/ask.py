"""How a person is asked while a host is being reached; without one, every question is an error that says what to do."""

from __future__ import annotations

from typing import Protocol


class Prompter(Protocol):
    """A person at a terminal."""

    def confirm(self, question: str) -> bool:
        """Whether the answer was yes; nothing typed is no."""
        ...

    def secret(self, prompt: str) -> str | None:
        """What was typed, not echoed; None where nothing was."""
        ...
