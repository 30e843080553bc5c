"""Arguments inside a shell string: `EXTRA="--bf16 True"`, `CMD="accelerate launch ..."`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fixers.settings.launch_options import TextRange
from fixers.sources.words import Command, Word

ARGUMENTS = re.compile(
    rb"[\s\\]*(?:\$\{?\w+\}?\s+)*(?:-|(?:accelerate|torchrun|deepspeed|python[\d.]*|srun|llamafactory-cli|axolotl)\s)"
)
SET = re.compile(r"[A-Za-z_]\w*\+?=([\"'])")
ONE_WORD_FLASH = re.compile(r"--\w*flash[_-]?att\w*(?:=|$)")
COMPARES = "FlashAttention stays: this script runs the same command without it too"


def holds_arguments(text: bytes) -> bool:
    """Return True if the text begins, after any variables, with a flag or a program that starts training."""
    return ARGUMENTS.match(text) is not None


def text_of(word: Word) -> tuple[int, int] | None:
    """Return the range of the text inside the quotes of `NAME="..."`, as after `export`; None for other words."""
    found = SET.match(word.raw)
    if found is None or len(word.raw) == found.end() or word.raw[-1] != found[1]:
        return None
    value = Word(word.start + found.end() - 1, word.end, word.raw[found.end() - 1 :], None)
    return value.inside


def default_in(piece: TextRange, found: re.Match[str]) -> TextRange:
    """Return the default in `${NAME:-default}`."""
    start = piece.start + found.start(2)
    return TextRange(start, start + len(found[2]), found[2], found[2])


def is_compared(command: Command, others: Sequence[Command]) -> bool:
    """Return True if the script also runs the command without its FlashAttention option, to compare both."""
    words = [word.raw for word in command.words]
    without = [word for word in words if not ONE_WORD_FLASH.match(word)]
    return len(without) < len(words) and any([word.raw for word in other.words] == without for other in others)
