"""Arguments inside a shell string: `EXTRA="--bf16 True"`, `CMD="accelerate launch ..."`."""

from __future__ import annotations

import re

from fixers.sources.words import Word

ARGUMENTS = re.compile(
    rb"[\s\\]*(?:\$\{?\w+\}?\s+)*(?:-|(?:accelerate|torchrun|deepspeed|python[\d.]*|srun|llamafactory-cli|axolotl)\s)"
)
SET = re.compile(r"[A-Za-z_]\w*\+?=([\"'])")


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
