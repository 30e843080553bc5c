"""Commands as words with byte positions, for every file format."""

from __future__ import annotations

import re
from dataclasses import dataclass

CONTINUED = re.compile(r"\\\r?\n")
"""A line continuation."""


@dataclass(frozen=True)
class Word:
    """One word. `text` is what a program sees, None where the shell expands something; `raw` is what is written."""

    start: int
    end: int
    raw: str
    text: str | None

    @property
    def plain(self) -> bool:
        """Written as it is seen: no quotes, escapes or expansions."""
        return self.text == self.raw

    @property
    def body(self) -> tuple[int, int] | None:
        """Where `text` itself lies, inside quotes around the whole word; None where it is not written in one piece."""
        if self.text is None:
            return None
        for quote in ("", "'", '"'):
            if self.raw == f"{quote}{self.text}{quote}":
                return self.start + len(quote), self.end - len(quote)
        return None

    @property
    def inside(self) -> tuple[int, int] | None:
        """What lies between quotes around the whole word, expansions too; None where quotes are mixed or escaped."""
        quote, inner = self.raw[:1], CONTINUED.sub("", self.raw[1:-1])
        if quote not in ("'", '"') or len(self.raw) < 2 or self.raw[-1] != quote or quote in inner or "\\" in inner:
            return None
        return self.start + 1, self.end - 1


@dataclass(frozen=True)
class Assignment:
    """`NAME=value` where the shell assigns; an array's words are `items`."""

    name: str
    value: Word
    items: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Command:
    """Assignments before a command, and its words; either may be empty."""

    assignments: tuple[Assignment, ...] = ()
    words: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Heredoc:
    """The bytes of a heredoc's body, the program that reads it, and the file that its line writes, where named."""

    start: int
    stop: int
    program: str = ""
    target: str = ""


@dataclass(frozen=True)
class Script:
    """Every command in order of its end, and every heredoc."""

    commands: tuple[Command, ...]
    heredocs: tuple[Heredoc, ...] = ()
