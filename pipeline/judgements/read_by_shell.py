"""Find the files that a shell script certainly gives to the one program that it starts. Pure."""

from __future__ import annotations

import posixpath
import re

from fixers.sources.shells import SHELLS
from fixers.sources.words import Command, Script, Word
from pipeline.judgements.left_out import is_read
from remote.protocol.dataclass import dataclass

PROGRAM = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed")
CREATES = frozenset({"cp", "mv", "ln", "touch", "install", "tee"})
SOURCED_LINE = re.compile(rb"(?:source|\.)[ \t]+\S+[ \t\r]*(?:#.*)?")
"""Matches a line that only sources a file. In a condition, or before `||`, the file may be absent."""
SOURCES = SHELLS | {".", "source"}


@dataclass(frozen=True)
class ReadByShell:
    """The text of a shell script, the words of the only Python program in it, and those of the files it sources.

    `created` are the paths of files that the script creates.
    """

    data: bytes
    program: tuple[Word, ...] = ()
    sourced: tuple[Word, ...] = ()
    created: frozenset[str] = frozenset()

    def is_certain(self, path: str, option: str, command: Command, start: int) -> bool:
        """Return True if the word at `start` certainly names a file that is read.

        It is not certain if the script names the file twice: it may create the file, or test whether the file exists.
        `option` is the name of the word's option, or of the variable to which the command assigns the word.
        """
        if self.data.count(posixpath.basename(path).encode("utf-8", "surrogateescape")) != 1:
            return False
        if any(word.start == start for word in self.sourced):
            return SOURCED_LINE.fullmatch(self._line_at(start)) is not None
        if not is_read(path, option):
            return False
        given = any(word.start == start for word in self.program)
        return given or (not command.words and self._passes(option))

    def _line_at(self, start: int) -> bytes:
        end = self.data.find(b"\n", start)
        return self.data[self.data.rfind(b"\n", 0, start) + 1 : end if end >= 0 else len(self.data)]

    def _passes(self, variable: str) -> bool:
        """Return True if the program is the only command that uses the variable: another one may create its file."""
        use = re.compile(rf"\$(?:{re.escape(variable)}\b|\{{{re.escape(variable)}[}}:])")
        every = len(use.findall(self.data.decode("utf-8", "replace")))
        return every == sum(len(use.findall(word.raw)) for word in self.program) > 0


def read_by(script: Script, data: bytes) -> ReadByShell:
    """Return the programs of a script. If it starts several, none counts: the first may write what the next reads."""
    starts = [command.words for command in script.commands if _starts_python(command)]
    sourced = tuple(command.words[1] for command in script.commands if _sources(command))
    created = {command.words[-1].text for command in script.commands if _first(command) in CREATES}
    paths = frozenset(posixpath.normpath(path) for path in created if path)
    return ReadByShell(data, starts[0] if len(starts) == 1 else (), sourced, paths)


def _starts_python(command: Command) -> bool:
    return any(PROGRAM.fullmatch(posixpath.basename(word.text or "")) for word in command.words)


def _sources(command: Command) -> bool:
    return len(command.words) > 1 and _first(command) in SOURCES


def _first(command: Command) -> str:
    return (command.words[0].text or "") if command.words else ""
