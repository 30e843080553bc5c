"""Keys that were given on the command line: what each is set to, and the words that a complaint about it names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fixers.sources.yaml_nodes import YamlProblem, compose
from fixers.sources.yaml_values import plain
from remote.errors import BadUsage

OF_HOST = "host."


@dataclass(frozen=True)
class Override:
    """`typed` are the words as they stood on the command line; `prefix` is what they say before the key."""

    keys: tuple[str, ...]
    value: Any
    typed: str
    prefix: str = ""

    def about(self, key: tuple[str | int, ...]) -> bool:
        """The key is this one, or lies inside it."""
        return key[: len(self.keys)] == self.keys

    def inside(self, key: tuple[str | int, ...]) -> bool:
        """This key lies inside that one."""
        return self.keys[: len(key)] == key


def for_run(overrides: Iterable[str]) -> list[str]:
    """Those that are meant for the run's config."""
    return [override for override in overrides if not override.startswith(OF_HOST)]


def for_host(overrides: Iterable[str]) -> list[str]:
    """Those that are meant for the host, as they were typed."""
    return [override for override in overrides if override.startswith(OF_HOST)]


def parse_override(override: str, prefix: str = "") -> Override:
    """`a.b=c`, after the prefix. Raises BadUsage."""
    key, equals, text = override.removeprefix(prefix).partition("=")
    if not equals or not key.strip():
        raise BadUsage(f"--set wants a.b=c, got {override!r}", where="--set", hint="--set train.learning_rate=1e-5")
    try:
        value = plain(compose(text, tags=False))
    except YamlProblem as error:
        raise BadUsage(f"--set {override!r}: {error.message}", where="--set") from None
    return Override(tuple(key.strip().split(".")), value, f"--set {override}", prefix)
