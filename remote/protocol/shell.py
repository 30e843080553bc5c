"""Printed commands, as text that can be pasted into any shell.

sh, bash, zsh, fish and tcsh read the printed words in the same way. Names and paths come from projects and hosts.
"""

from __future__ import annotations

import os
import re
from typing import Iterable, List, Union

Word = Union[str, "os.PathLike[str]"]

PLAIN = re.compile(r"[A-Za-z0-9_./:@+,-][A-Za-z0-9_./:@+,%=-]*")
"""A word that no shell changes. zsh expands a leading `=`, and older versions of fish a leading `%`."""

QUOTED = re.compile(r"[ \"#-&(-\[\]-_a-~]*")
"""A word that every shell reads as it is in single quotes: printable ASCII without `'`, backslash, `!` and backtick.

fish has escapes in single quotes, and tcsh a history. Messages print commands in backticks, which end at the first
backtick if they are pasted too. Without a UTF-8 locale, the line editor of tcsh takes each byte of a letter outside of
ASCII for a key, such as one that deletes a word or doubles the closing quote. Python may replace the locale of its
shell, so that the shell's own locale is not known.
"""


WORDS = re.compile(r"(?:[^' ]|'[^']*')+")
LONGEST = 1500
"""The most characters of a command. A longer text is cut when it is printed."""


def is_plain(name: str) -> bool:
    """Return True if the name is printed without quotes, and means nothing to a shell wherever it is."""
    return PLAIN.fullmatch(name) is not None


def command_line(words: Iterable[Word]) -> str:
    """Return the words as a command, or "" if the shells would not all read the same words."""
    quoted = [_quoted(os.fspath(word)) for word in words]
    line = " ".join(quoted)
    return line if all(quoted) and len(line) <= LONGEST else ""


def shell_command(template: str, *words: Word) -> str:
    """Return the template with each `{}` replaced by the next word.

    If the shells would not all read the same words, the result is a sentence in which NAME stands for these words.
    """
    quoted = [_quoted(os.fspath(word)) for word in words]
    line = template.format(*quoted)
    if all(quoted) and len(line) <= LONGEST:
        return line
    named = template.format(*(word if word and len(line) <= LONGEST else "NAME" for word in quoted))
    return f"quote the name above for your shell, and type it for NAME: {named}"


def on_host(template: str, *words: Word, host: str = "") -> str:
    """Return the hint to type the command on the host. A host name that is not plain is not repeated."""
    return f"{shell_command(template, *words)}   (on {host if is_plain(host) else 'the host'})"


def words_in(command: str) -> List[str]:
    """Return the words of a text that `shell_command` returned, with their quotes."""
    return WORDS.findall(command)


def outside_quotes(text: str) -> str:
    """Return the text without the quoted words of its commands."""
    return "'".join(text.split("'")[::2])


def outside_project(*words: Word) -> str:
    """Return a command line that runs the command in the root folder.

    In the folder of a project, Python and older versions of pipx import modules of the project, such as a folder `pip`,
    and other tools read settings in it.
    """
    return shell_command("(cd / && " + " ".join("{}" for _ in words) + ")", *words)


def install_on_host(python: str, packages: Iterable[str]) -> str:
    """Return the command with which pip installs packages for an interpreter of the host."""
    command = [python or "python3", "-m", "pip", "install", *packages]
    return on_host("(cd / && " + " ".join("{}" for _ in command) + ")", *command)


def _quoted(word: str) -> str:
    """Return the word as it is printed, or "" if the shells would not all read it."""
    if PLAIN.fullmatch(word):
        return word
    return f"'{word}'" if QUOTED.fullmatch(word) else ""
