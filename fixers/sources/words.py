"""Types for commands: words with byte positions, shared by all file formats."""

from __future__ import annotations

import re

from remote.protocol.dataclass import dataclass

CONTINUED = re.compile(r"\\\r?\n")
"""A line continuation."""


@dataclass(frozen=True)
class Word:
    """One word. `text`: its value, or None if the shell expands part of it. `raw`: its source text."""

    start: int
    end: int
    raw: str
    text: str | None

    @property
    def body(self) -> tuple[int, int] | None:
        """Return the range of `text` in the file, without quotes around the word, or None if it is not contiguous."""
        if self.text is None:
            return None
        for quote in ("", "'", '"'):
            if self.raw == f"{quote}{self.text}{quote}":
                return self.start + len(quote), self.end - len(quote)
        return None

    @property
    def inside(self) -> tuple[int, int] | None:
        """Return the range between the quotes around the word, including expansions.

        Return None for mixed quotes or escapes.
        """
        quote, inner = self.raw[:1], CONTINUED.sub("", self.raw[1:-1])
        if quote not in ("'", '"') or len(self.raw) < 2 or self.raw[-1] != quote or quote in inner or "\\" in inner:
            return None
        return self.start + 1, self.end - 1


@dataclass(frozen=True)
class Assignment:
    """A shell assignment `NAME=value`; `items` are the words of an array. `appends` is True for `NAME+=value`."""

    name: str
    value: Word
    items: tuple[Word, ...] = ()
    appends: bool = False


@dataclass(frozen=True)
class Command:
    """The assignments before a command, and the command's words. A command may have no words or no assignments."""

    assignments: tuple[Assignment, ...] = ()
    words: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Heredoc:
    """The range of a heredoc's body, the program that reads it, and the output file if one is named.

    `literal` is True if the shell expands nothing in the body, because the delimiter is quoted.
    """

    start: int
    stop: int
    program: str = ""
    target: str = ""
    literal: bool = False


@dataclass(frozen=True)
class Script:
    """All commands, sorted by the position of their end, and all heredocs."""

    commands: tuple[Command, ...]
    heredocs: tuple[Heredoc, ...] = ()
