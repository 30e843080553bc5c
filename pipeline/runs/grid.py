"""Expand `--config a,b` and `--set KEY=1,2` to all combinations, one run for each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from pathlib import Path

from pipeline.config.find import is_path
from pipeline.config.overrides import HOST_PREFIX
from remote.errors import BadUsage
from remote.project.paths import expanded, is_file
from remote.protocol.dataclass import dataclass

MOST = 16
"""The maximum number of runs without `--yes`."""
LARGEST = 1000
"""The maximum number of runs in one command."""
COMMAND_KEYS = ("command", "notify")
"""Keys whose values are command lines. A comma in a command line does not separate values."""
OPENING, CLOSING, QUOTES = "[{", "]}", "\"'"


@dataclass(frozen=True)
class Point:
    """One combination. `varied` are the overrides of the keys that have several values."""

    config: str
    overrides: tuple[str, ...]
    varied: tuple[str, ...] = ()


def combinations(config: str, overrides: Sequence[str], cwd: Path, *, many: bool = False) -> tuple[Point, ...]:
    """Return every combination of configs and values.

    The last key varies fastest. Raises BadUsage for an empty name or value, for more than MOST combinations unless
    `many` is set, and for more than LARGEST combinations.
    """
    whole = is_path(config) and is_file(cwd / expanded(config))
    configs = (config,) if whole else _distinct(_parts(config, "--config"))
    choices = [_choices(override) for override in overrides]
    count = len(configs) * prod(map(len, choices))
    if count > LARGEST or (count > MOST and not many):
        limit = f"more than {MOST} need --yes" if count <= LARGEST else f"the maximum is {LARGEST}"
        raise BadUsage(f"this is {count} runs; {limit}", where="--set")
    return tuple(_points(configs, choices))


def _points(configs: Sequence[str], choices: Sequence[Sequence[str]]) -> Iterator[Point]:
    varies = [len(values) > 1 for values in choices]
    for config, chosen in product(configs, product(*choices)):
        yield Point(config, chosen, tuple(one for one, several in zip(chosen, varies, strict=True) if several))


def _choices(override: str) -> tuple[str, ...]:
    key, equals, value = override.partition("=")
    if not equals or key.strip() in COMMAND_KEYS or key.startswith(HOST_PREFIX):
        return (override,)
    return tuple(f"{key}={one}" for one in _distinct(_parts(value, "--set", f" of {key}")))


def _distinct(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(parts))


def _parts(text: str, where: str, of: str = "") -> tuple[str, ...]:
    parts = split_values(text)
    if len(parts) > 1 and not all(parts):
        raise BadUsage(f"an empty value{of} in {text!r}", where=where)
    return parts


def split_values(text: str) -> tuple[str, ...]:
    """Split at commas outside of YAML's brackets, braces and quotes: `1,[2,3]` has the values `1` and `[2,3]`."""
    parts, depth, quote, before = [""], 0, "", ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in QUOTES and before in ("", ",", ":", *OPENING):
            quote = letter
        elif letter in OPENING + CLOSING:
            depth += 1 if letter in OPENING else -1
        elif letter == "," and depth <= 0:
            parts.append("")
            before = letter
            continue
        parts[-1] += letter
        before = before if letter.isspace() else letter
    return tuple(part.strip() for part in parts)
