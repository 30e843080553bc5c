"""Split the values of ssh_config into words, and a line of `ssh -G` into the paths that it contains."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from remote.errors import BadUsage

TOKEN = re.compile(r"""\\["'\\ ]|.""", re.DOTALL)


# complex: one state machine for words, quotes and escapes
def ssh_words(text: str, *, comments: bool = False) -> list[str]:
    """Return the words of a value by the rules of ssh, which differ from those of a shell.

    A backslash escapes only a quote, a backslash, or a space outside of quotes. It is kept before any other
    character, so `DOM\\jo` has a backslash. If `comments` is True, a word that begins with # ends the value.
    Raises ValueError if a quote is not closed.
    """
    words: list[str] = []
    word: str | None = None
    quote = ""
    for token in TOKEN.findall(text):
        if len(token) == 2 and not (quote and token == "\\ "):
            word = (word or "") + token[1]
        elif quote:
            quote, word = ("", word) if token == quote else (quote, f"{word}{token}")
        elif token in (" ", "\t"):
            words += [] if word is None else [word]
            word = None
        elif token in ('"', "'"):
            quote, word = token, word or ""
        elif comments and word is None and token == "#":
            break
        else:
            word = (word or "") + token
    if quote:
        raise ValueError("no closing quote")
    return words if word is None else [*words, word]


def split_paths(text: str, option: str, is_file: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the paths that `ssh -G` printed on one line, separated by single spaces and without quotes.

    A path begins with / or ~/, so a space before any other character belongs to the path. Raises BadUsage if the line
    can be divided in another way that contains an existing file. Otherwise, a file with known or revoked keys could
    be overlooked.
    """
    fields = text.split(" ")
    starts = [at for at, field in enumerate(fields) if at == 0 or field.startswith(("/", "~/"))]
    paths = tuple(" ".join(fields[at:end]) for at, end in zip(starts, [*starts[1:], len(fields)], strict=True))
    other = next((path for path in _divisions(fields) if path not in paths and is_file(path)), None)
    if other is not None:
        raise BadUsage(
            f"`ssh -G` prints the paths of {option} without quotes ({text}), so it is not clear whether {other} is one "
            "of them",
            where="~/.ssh/config",
            hint=f"in {option}, use absolute paths in which no folder ends with a space",
        )
    return paths


def _divisions(fields: list[str]) -> Iterator[str]:
    """Yield every path that consecutive fields can form."""
    for at in range(len(fields)):
        for end in range(at + 1, len(fields) + 1):
            yield " ".join(fields[at:end])
