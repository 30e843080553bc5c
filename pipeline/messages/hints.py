"""Hints that can be typed as they stand: who finds something knows no names, the outcome of a verb does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

NEEDS_NAMES = re.compile(r"\bpipeline (run|verify|plan|fix)(?= --|$|[;,.)])")


def typed_out(hint: str, host: str, config: str, given: tuple[str, ...] = ()) -> str:
    """The hint with `--host`, `--config` and what was given beside them, where a verb in it needs them and has none."""
    if not host or not config or "--host" in hint or "--config" in hint:
        return hint
    words = shlex.join(given if "--host" in given else ["--host", host, "--config", config, *given])
    return NEEDS_NAMES.sub(lambda match: f"{match.group()} {words}", hint)


def given_beside(overrides: Sequence[str], card: str = "") -> tuple[str, ...]:
    """Overrides of keys as words to type; a card that was named is a key of the host, which every verb takes."""
    named = [*overrides, *([f"host.card={card}"] if card else [])]
    return tuple(word for override in named for word in ("--set", override))


def as_named(host: str, config: str, given: Sequence[str]) -> tuple[str, ...]:
    """The words that name a host and a config as they were typed, and what was given beside them."""
    return ("--host", host, "--config", config, *given)


def from_anywhere(words: Sequence[str]) -> tuple[str, ...]:
    """The words with paths that hold in every folder: what is kept may be typed elsewhere."""
    return tuple(
        str(Path(word).absolute()) if _is_file(before, word) else word for before, word in pairwise(("", *words))
    )


def _is_file(before: str, word: str) -> bool:
    path = "/" in word or word.endswith((".yaml", ".yml"))
    return before in ("--host", "--config") and path and Path(word).is_file()


def given_in(words: Sequence[str]) -> tuple[str, ...]:
    """The overrides that were typed, as they stood."""
    apart = [after for word, after in pairwise(words) if word == "--set"]
    return given_beside([*apart, *(word.removeprefix("--set=") for word in words if word.startswith("--set="))])


def typed_with(words: Sequence[str], wrong: str, right: str) -> str:
    """The line that was typed, with the right word in place of the wrong one; empty where that is not in it."""
    if wrong in words:
        at = len(words) - 1 - list(reversed(words)).index(wrong)
        return shlex.join(["pipeline", *words[:at], right, *words[at + 1 :]])
    fixed = [f"{word.partition('=')[0]}={right}" if word.partition("=")[2] == wrong else word for word in words]
    return shlex.join(["pipeline", *fixed]) if wrong and fixed != list(words) else ""
