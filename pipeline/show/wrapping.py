"""Wrap text to the lines of a terminal, between words. Paths that are longer than a line are broken after slashes."""

from __future__ import annotations

import re
from textwrap import wrap

COMMANDS = ("pipeline ", "scp ", "cp ", "mkdir ", "uv ", "ssh-copy-id ")
QUOTED = re.compile("'[^']*'")
SENTENCE = re.compile(r"[,;] |  \(|`")
"""Text that follows a command in a sentence, or precedes the next command."""

HARD_SPACE = "\ue000"
"""A character without a meaning, in place of a space at which a line must not be broken."""


def wrap_text(text: str, room: int, width: int, last: str = "") -> list[str]:
    """Return at least one line of at most `room` columns.

    `last`, the end of the text such as a number and its unit, stays on one line.

    A word that is longer than `room` is on a separate line. A word that is longer than the terminal's `width` is broken
    after slashes.
    """
    whole = text.removesuffix(last) + last.replace(" ", HARD_SPACE) if last else text
    words = (_pieces(word, room) if len(word) > width else word for word in whole.split(" "))
    return [line.replace(HARD_SPACE, " ") for line in wrap_words(" ".join(words), room)]


def wrap_words(text: str, room: int) -> list[str]:
    """Return at least one line of at most `room` columns. A longer word is on a separate line."""
    return wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]


def wrap_hint(hint: str, room: int, width: int) -> list[str]:
    """Return the lines of a hint.

    Lines of a command end with a backslash and no word is broken, so that the command can be copied into a shell. A
    hint that contains more than a command is a sentence.
    """
    if len(hint) <= room or not hint.startswith(COMMANDS) or SENTENCE.search(QUOTED.sub("", hint)):
        return wrap_text(hint, room, width)
    *lines, last = wrap_words(hint, room - 2)
    return [*(f"{line} \\" for line in lines), last]


def _pieces(word: str, room: int) -> str:
    """Return the word with a space after each slash at which the word is broken."""
    pieces = [""]
    for part in re.split(r"(?<=/)", word):
        if pieces[-1] and len(pieces[-1]) + len(part) > room:
            pieces.append("")
        pieces[-1] += part
    return " ".join(pieces)
