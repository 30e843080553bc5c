"""Prompts while connecting to a host. Without a Prompter, each prompt becomes an error with a hint."""

from __future__ import annotations

from typing import Protocol


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
