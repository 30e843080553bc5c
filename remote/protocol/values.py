"""Encode frozen dataclasses as JSON, and decode them with checks against their annotations."""

from __future__ import annotations

import base64
import dataclasses
import enum
import functools
import json
import types
import typing
from typing import Annotated, Any, Callable, Dict, NamedTuple, Optional, Type, TypeVar, Union

T = TypeVar("T")
TextRule = Optional[Callable[[str], str]]
Verbatim = Annotated[str, None]
"""A text that a `text_rule` does not change."""
Signed = Annotated[int, "signed"]
"""An integer that may be negative in every value. Other integers are counts, sizes, offsets and numbers."""
MAX_INT = 2**63 - 1
# In Python 3.10 and newer, `X | None` has another type than Optional[X]. Python 3.9 does not have this type.
UNIONS = (Union, getattr(types, "UnionType", Union))


class Rules(NamedTuple):
    """How texts are changed, and whether integers may be negative."""

    text: TextRule
    signed: bool


class Malformed(ValueError):
    """A JSON value does not match its annotation. The message contains the location."""


def encode(value: Any) -> Any:
    """Convert a dataclass, enum, tuple, mapping or plain value to JSON types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple, set, frozenset)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    return value


def dumps(value: Any) -> bytes:
    """Return `encode(value)` as compact UTF-8 JSON. Equal values give equal bytes."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogateescape"
    )


def decode(kind: Type[T], data: Any, where: str = "$", text_rule: TextRule = None, signed: bool = True) -> T:
    """Decode `data` as a `kind`. Unknown fields are ignored.

    `text_rule` is applied to each text. If the annotation of a text is `Annotated[str, rule]`, that rule is applied
    instead. Keys of objects are not changed. If `signed` is False, only integers with the annotation `Signed` may be
    negative. Raises Malformed, also for a missing field without a default.
    """
    return typing.cast(T, _decode(kind, data, where, Rules(text_rule, signed)))


def _decode(kind: Any, data: Any, where: str, rules: Rules) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return data
    if origin is Annotated:
        inner, own_rule = typing.get_args(kind)
        own = Rules(rules.text, True) if kind is Signed else Rules(own_rule, rules.signed)
        return _decode(inner, data, where, own)
    if origin in UNIONS:
        return _decode_union(kind, data, where, rules)
    if origin in (tuple, list):
        return _decode_sequence(kind, data, where, rules)
    if origin is dict:
        if not isinstance(data, dict):
            raise Malformed(f"{where}: expected an object, got {type(data).__name__}")
        item = typing.get_args(kind)[1]
        return {str(key): _decode(item, value, f"{where}.{key}", rules) for key, value in data.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, data, where, rules)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(data)
        except ValueError:
            raise Malformed(f"{where}: {data!r} is not one of {[m.value for m in kind]}") from None
    return _decode_plain(kind, data, where, rules)


def _decode_plain(kind: Any, data: Any, where: str, rules: Rules) -> Any:
    if kind is bytes:
        return _decode_bytes(data, where)
    if kind in (int, float) and isinstance(data, int):
        _require_range(kind, data, where, rules)
        if kind is float and not isinstance(data, bool):
            return float(data)
    if not isinstance(data, kind):
        raise Malformed(f"{where}: expected {kind.__name__}, got {type(data).__name__}")
    return rules.text(data) if rules.text is not None and kind is str else data


def _require_range(kind: Any, data: int, where: str, rules: Rules) -> None:
    if kind is int and isinstance(data, bool):
        raise Malformed(f"{where}: expected int, got bool")
    if abs(data) > MAX_INT:
        raise Malformed(f"{where}: a number of more than 64 bits")
    if kind is int and data < 0 and not rules.signed:
        raise Malformed(f"{where}: a negative number")


def _decode_bytes(data: Any, where: str) -> bytes:
    """Decode base64, the encoding of bytes in JSON."""
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError):
        raise Malformed(f"{where}: expected base64, got {type(data).__name__}") from None


def _decode_union(kind: Any, data: Any, where: str, rules: Rules) -> Any:
    choices = typing.get_args(kind)
    if data is None and type(None) in choices:
        return None
    kinds = [choice for choice in choices if choice is not type(None)]
    if len(kinds) == 1:
        return _decode(kinds[0], data, where, rules)
    for choice in kinds:
        try:
            return _decode(choice, data, where, rules)
        except Malformed:
            continue
    raise Malformed(f"{where}: {type(data).__name__} fits none of {kinds}")


def _decode_sequence(kind: Any, data: Any, where: str, rules: Rules) -> Any:
    if not isinstance(data, list):
        raise Malformed(f"{where}: expected a list, got {type(data).__name__}")
    args = typing.get_args(kind)
    if typing.get_origin(kind) is list:
        return [_decode(args[0], item, f"{where}[{i}]", rules) for i, item in enumerate(data)]
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_decode(args[0], item, f"{where}[{i}]", rules) for i, item in enumerate(data))
    if len(args) != len(data):
        raise Malformed(f"{where}: expected {len(args)} items, got {len(data)}")
    return tuple(_decode(arg, item, f"{where}[{i}]", rules) for i, (arg, item) in enumerate(zip(args, data)))


def _decode_dataclass(kind: Any, data: Any, where: str, rules: Rules) -> Any:
    if not isinstance(data, dict):
        raise Malformed(f"{where}: expected an object, got {type(data).__name__}")
    hints = _hints(kind)
    given: Dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            given[field.name] = _decode(hints[field.name], data[field.name], f"{where}.{field.name}", rules)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise Malformed(f"{where}: no {field.name}")
    return kind(**given)


@functools.cache
def _hints(kind: Any) -> Dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)
