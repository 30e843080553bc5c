"""Prompts while connecting to a host; without a Prompter, each question is an error with a hint."""

from __future__ import annotations

from typing import Protocol


class Prompter(Protocol):
    """The user at a terminal."""

    def confirm(self, question: str) -> bool:
        """Return True if the answer is yes; an empty answer is no."""
        ...

    def secret(self, prompt: str) -> str | None:
        """Return what was typed, without echo; None if nothing was typed."""
        ...
