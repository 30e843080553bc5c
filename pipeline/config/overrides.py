"""Overrides of config keys, at any depth, by `--set`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fixers.sources.yaml_nodes import YamlProblem, compose
from fixers.sources.yaml_values import plain
from pipeline.config.model import RunConfig
from remote.errors import BadUsage
from remote.protocol.dataclass import dataclass

HOST_PREFIX = "host."


@dataclass(frozen=True)
class Override:
    """One key and its value.

    `typed` is the option as the user typed it; `prefix` is the text before the key, such as `host.`.
    """

    keys: tuple[str, ...]
    value: Any
    typed: str
    prefix: str = ""

    def covers(self, key: tuple[str | int, ...]) -> bool:
        """Return True if the override sets the key or a parent of the key: `train` is the parent of `train.seed`."""
        return key[: len(self.keys)] == self.keys

    def is_inside(self, key: tuple[str | int, ...]) -> bool:
        """Return True if the override sets a key in the section `key`."""
        return self.keys[: len(key)] == key


def run_overrides(overrides: Iterable[str]) -> list[str]:
    """Return the overrides that apply to the run's config."""
    return [override for override in overrides if not override.startswith(HOST_PREFIX)]


def host_overrides(overrides: Iterable[str]) -> list[str]:
    """Return the overrides that apply to the host's config (`host.a=b`)."""
    return [override for override in overrides if override.startswith(HOST_PREFIX)]


def parse_override(override: str, prefix: str = "") -> Override:
    """Parse an override `a.b=c` with an optional prefix. Raises BadUsage."""
    key, equals, text = override.removeprefix(prefix).partition("=")
    if not equals or not key.strip():
        instead = (override, f"{override}=VALUE") if not equals and key.strip() else None
        hint = "--set train.learning_rate=1e-5"
        raise BadUsage(f"--set expects a.b=c, got {override!r}", where="--set", hint=hint, instead=instead)
    try:
        value = plain(compose(text, tags=False))
    except YamlProblem as error:
        raise BadUsage(f"--set {_shortened(override)!r}: {error.message}", where="--set") from None
    return Override(tuple(key.strip().split(".")), value, f"--set {override}", prefix)


def _shortened(override: str) -> str:
    return override if len(override) <= 200 else f"{override[:200]}..."


def with_key(values: dict[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a copy of the values in which the key has the value. Missing sections are created."""
    first, *rest = keys
    if not rest:
        return {**values, first: value}
    inner = values.get(first)
    return {**values, first: with_key(inner if isinstance(inner, dict) else {}, rest, value)}


def with_overrides(config: RunConfig, overrides: Mapping[str, Any]) -> RunConfig:
    """Return the config with `a.b` keys replaced. Raises pydantic's ValidationError for an invalid value."""
    values = config.model_dump(mode="json")
    for key, value in overrides.items():
        values = with_key(values, key.split("."), value)
    return RunConfig.model_validate(values)
