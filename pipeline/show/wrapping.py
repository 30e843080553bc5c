"""Break text into the lines of a terminal: between words, and after a slash of a path that is longer than a line."""

from __future__ import annotations

import re
from textwrap import wrap

COMMAND = "pipeline "


def wrap_text(text: str, room: int, width: int) -> list[str]:
    """Return lines of at most `room` columns, at least one.

    A word that is longer than `room` has a line of its own. If it is longer than the terminal, which is `width` columns
    wide, it is broken after slashes.
    """
    words = (_pieces(word, room) if len(word) > width else word for word in text.split(" "))
    return wrap_words(" ".join(words), room)


def wrap_words(text: str, room: int) -> list[str]:
    """Return lines of at most `room` columns, at least one; a longer word has a line of its own."""
    return wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]


def wrap_hint(hint: str, room: int, width: int) -> list[str]:
    """Return the lines of a hint.

    The lines of a command end with a backslash, so that it can be copied into a shell.
    """
    if len(hint) <= room or not hint.startswith(COMMAND):
        return wrap_text(hint, room, width)
    *lines, last = wrap_text(hint, room - 2, width)
    return [*(f"{line} \\" for line in lines), last]


def _pieces(word: str, room: int) -> str:
    """Return the word with a space after the slashes at which it is broken."""
    pieces = [""]
    for part in re.split(r"(?<=/)", word):
        if pieces[-1] and len(pieces[-1]) + len(part) > room:
            pieces.append("")
        pieces[-1] += part
    return " ".join(pieces)
