"""Wrap text to the lines of a terminal, between words. Commands are never broken inside of a word."""

from __future__ import annotations

import re
from textwrap import wrap

from remote.protocol.shell import outside_quotes, words_in

COMMANDS = ("pipeline ", "scp ", "cp ", "mkdir ", "uv ", "ssh-copy-id ", "(cd / && ", "rm ", "find ", "ls ", "df ")
"""Beginnings of long hints that are broken, for reading. All other commands are one line."""

IN_COMMAND = re.compile(r"[^\w ,.;:]|\bpipeline ")
"""What is never missing in a long command: a slash, an option, a quote."""

IN_BACKTICKS = re.compile("`[^`]*`")
SENTENCE = re.compile(r"[,;] |  \(|`")
"""Text that follows a command in a sentence, or precedes the next command."""

HARD_SPACE = "\ue000"
"""A character without a meaning, in place of a space at which a line must not be broken."""


def wrap_text(text: str, room: int, width: int, last: str = "") -> list[str]:
    """Return at least one line of at most `room` columns.

    `last`, the end of the text such as a number and its unit, stays on one line, and so does a command in backticks.

    A word that is longer than `room` is on a separate line. A word that is longer than the terminal's `width` is broken
    after slashes, except in a command.
    """
    whole = text.removesuffix(last) + last.replace(" ", HARD_SPACE) if last else text
    whole = IN_BACKTICKS.sub(lambda command: command[0].replace(" ", HARD_SPACE), whole)
    words = (_pieces(word, room) if len(word) > width and "`" not in word else word for word in whole.split(" "))
    return [line.replace(HARD_SPACE, " ") for line in wrap_words(" ".join(words), room)]


def wrap_words(text: str, room: int) -> list[str]:
    """Return at least one line of at most `room` columns. A longer word is on a separate line."""
    return wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]


def wrap_hint(hint: str, room: int) -> list[str]:
    """Return the lines of a hint. What could be a command is broken only where every shell continues it.

    Lines of a command end with a backslash, and no word is broken. A text that may contain a command is one line, which
    the terminal breaks: a line of it could be another command.
    """
    if len(hint) <= room:
        return [hint]
    if not IN_COMMAND.search(hint):
        return wrap_words(hint, room)
    if not hint.startswith(COMMANDS) or hint.count("'") % 2 or SENTENCE.search(outside_quotes(hint)):
        return [hint]
    lines = [""]
    for word in words_in(hint):
        if lines[-1] and len(lines[-1]) + len(word) > room - 3:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def _pieces(word: str, room: int) -> str:
    """Return the word with a space after each slash at which the word is broken."""
    pieces = [""]
    for part in re.split(r"(?<=/)", word):
        if pieces[-1] and len(pieces[-1]) + len(part) > room:
            pieces.append("")
        pieces[-1] += part
    return " ".join(pieces)
