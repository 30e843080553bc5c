"""Arguments within a shell's text: `EXTRA="--bf16 True"`, `CMD="accelerate launch ..."`."""

from __future__ import annotations

import re

from fixers.sources.words import Word

ARGUMENTS = re.compile(
    rb"[\s\\]*(?:\$\{?\w+\}?\s+)*(?:-|(?:accelerate|torchrun|deepspeed|python[\d.]*|srun|llamafactory-cli|axolotl)\s)"
)
SET = re.compile(r"[A-Za-z_]\w*\+?=([\"'])")


def holds_arguments(text: bytes) -> bool:
    """The text begins, behind other variables, with a flag or with a program that starts trainings."""
    return ARGUMENTS.match(text) is not None


def text_of(word: Word) -> tuple[int, int] | None:
    """Where the text lies that a word sets: `NAME="..."` behind export, `then` and the like."""
    found = SET.match(word.raw)
    if found is None or len(word.raw) == found.end() or word.raw[-1] != found[1]:
        return None
    value = Word(word.start + found.end() - 1, word.end, word.raw[found.end() - 1 :], None)
    return value.inside
