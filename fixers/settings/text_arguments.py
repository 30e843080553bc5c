"""Find command-line arguments inside shell strings, such as `EXTRA="--bf16 True"`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from posixpath import basename

from fixers.settings.launch_options import TextRange
from fixers.sources.shells import SHELLS, TEXT_FOLLOWS
from fixers.sources.words import Command, Word

ARGUMENTS = re.compile(
    rb"[\s\\]*(?:\$\{?\w+\}?\s+)*(?:-|(?:accelerate|torchrun|deepspeed|python[\d.]*|srun|llamafactory-cli|axolotl)\s)"
)
SET = re.compile(r"[A-Za-z_]\w*\+?=([\"'])")
ONE_WORD_FLASH = re.compile(r"--\w*flash[_-]?att\w*(?:=|$)")
COMPARES = "FlashAttention is not replaced: this script also runs the same command without FlashAttention"


def holds_arguments(text: bytes) -> bool:
    """Return True if the text begins with a flag or with a program that starts training.

    Leading variables are skipped.
    """
    return ARGUMENTS.match(text) is not None


def shell_texts_in(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Yield the range of the command text in `bash -c "..."`, without the quotes."""
    for at, word in enumerate(words[:-1]):
        inside = words[at + 1].inside
        if (
            inside
            and TEXT_FOLLOWS.fullmatch(word.text or "")
            and any(basename(w.text or "") in SHELLS for w in words[:at])
        ):
            yield inside


def text_of(word: Word) -> tuple[int, int] | None:
    """Return the byte range between the quotes of `NAME="..."`, or None for other words."""
    match = SET.match(word.raw)
    if match is None or len(word.raw) == match.end() or word.raw[-1] != match[1]:
        return None
    value = Word(word.start + match.end() - 1, word.end, word.raw[match.end() - 1 :], None)
    return value.inside


def default_in(piece: TextRange, match: re.Match[str]) -> TextRange:
    """Return the range and text of the default in `${NAME:-default}`."""
    start = piece.start + match.start(2)
    return TextRange(start, start + len(match[2]), match[2], match[2])


def is_compared(command: Command, others: Sequence[Command]) -> bool:
    """Return True if the script also runs the same command without its FlashAttention option."""
    words = [word.raw for word in command.words]
    without = [word for word in words if not ONE_WORD_FLASH.match(word)]
    return len(without) < len(words) and any([word.raw for word in other.words] == without for other in others)
