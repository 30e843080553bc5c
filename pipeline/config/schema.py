"""Read the JSON Schemas of config files. Reading the schema files is faster than importing the models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).with_name("schemas")


def schema_path(kind: str) -> Path:
    """Return the file of the schema of a `config` or a `host`."""
    return SCHEMAS / f"{kind}.schema.json"


def keys_of(kind: str) -> tuple[str, ...]:
    """Return every key of a `config` or a `host` as `a.b`, in the order of the schema."""
    schema = json.loads(schema_path(kind).read_bytes())
    return tuple(_keys(schema, schema.get("$defs", {}), ""))


def _keys(schema: dict[str, Any], definitions: dict[str, Any], prefix: str) -> Iterator[str]:
    for name, value in schema.get("properties", {}).items():
        section = _section(value, definitions)
        if section is None:
            yield f"{prefix}{name}"
        else:
            yield from _keys(section, definitions, f"{prefix}{name}.")


def _section(value: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of a key that is a section with keys of its own, or None for any other key."""
    choices = [value, *value.get("anyOf", [])]
    named = (definitions[str(one["$ref"]).rpartition("/")[2]] for one in choices if "$ref" in one)
    return next((one for one in named if "properties" in one), None)
