"""One key of a config given another value, wherever it is nested. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.config.model import RunConfig


def with_key(values: dict[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """The values with the key at that path set; sections that are not there are made."""
    first, *rest = keys
    if not rest:
        return {**values, first: value}
    inner = values.get(first)
    return {**values, first: with_key(inner if isinstance(inner, dict) else {}, rest, value)}


def overridden(config: RunConfig, overrides: Mapping[str, Any]) -> RunConfig:
    """The config with `a.b` keys replaced. Raises pydantic's ValidationError for a value that cannot be."""
    values = config.model_dump(mode="json")
    for key, value in overrides.items():
        values = with_key(values, key.split("."), value)
    return RunConfig.model_validate(values)
