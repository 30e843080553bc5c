"""Convert YAML nodes to values (yes, 017, 1e-5, ~), and find duplicate keys."""

from __future__ import annotations

import math
import re
from typing import Any

from fixers.sources.yaml_nodes import (
    CORE_TAG,
    LIMITS,
    Limits,
    Mapping,
    Node,
    Path,
    Scalar,
    Sequence,
    Span,
    YamlProblem,
    walk,
)
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Duplicate:
    """A key that occurs twice in one mapping. YAML parsers keep only the last value and report no error."""

    path: Path
    first: Span
    second: Span


def duplicates(node: Node | None) -> tuple[Duplicate, ...]:
    """Return every occurrence of a key in a mapping after the first."""
    found: list[Duplicate] = []
    for path, value in [((), node), *((p, v) for p, _, v in walk(node))]:
        if isinstance(value, Mapping):
            seen: dict[str, Span] = {}
            for key, _ in value.entries:
                if not isinstance(key, Scalar) or key.text == "<<":
                    continue
                if key.text in seen:
                    found.append(Duplicate((*path, key.text), seen[key.text], key.span))
                seen.setdefault(key.text, key.span)
    return tuple(found)


def plain(node: Node | None, limits: Limits = LIMITS) -> Any:
    """Return the node as dict, list, str, bool, int, float or None, by the rules of YAML 1.1 (yes, 0x1F, 017, `<<`).

    Unlike in YAML 1.1, `1e-5` is a number, and dates and `22:22` are text. The last of several equal keys is used.
    Raises YamlProblem if aliases expand to more than `limits.values` values.
    """
    if node is None:
        return None
    if _count(node, {}, limits.values) > limits.values:
        raise YamlProblem(f"aliases expand to more than {limits.values} values", node.span.line, node.span.column)
    return _plain(node)


def _plain(node: Node) -> Any:
    if isinstance(node, Scalar):
        return scalar_value(node)
    if isinstance(node, Sequence):
        return [_plain(item) for item in node.items]
    merged: dict[Any, Any] = {}
    explicit: dict[Any, Any] = {}
    for key, value in node.entries:
        if not isinstance(key, Scalar):
            raise YamlProblem("a key must be a single word", key.span.line, key.span.column)
        if key.text == "<<" and not key.style:
            sources = value.items if isinstance(value, Sequence) else (value,)
            for source in reversed(sources):
                if not isinstance(source, Mapping):
                    raise YamlProblem("only a mapping can be merged", source.span.line, source.span.column)
                merged.update(_plain(source))
        else:
            explicit[scalar_value(key)] = _plain(value)
    return {**merged, **explicit}


_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    form: value
    for value, words in ((True, ("yes", "true", "on")), (False, ("no", "false", "off")))
    for word in words
    for form in (word, word.capitalize(), word.upper())
}
_INT = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|0[0-7_]+|0|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9][0-9_]*(?=[eE]))([eE][-+]?[0-9]+)?\Z")
_MOST_DIGITS = 1000
"""More digits than any float64 has; Python raises an error above 4300 digits."""
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)\Z")


def scalar_value(node: Scalar) -> Any:
    """Return the value of a scalar. Quoted scalars and scalars with the tag `!!str` are text."""
    if node.style or node.tag == CORE_TAG + "str":
        return node.text
    text = node.text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        if len(text) > _MOST_DIGITS:
            message = f"a number has {len(text)} digits; at most {_MOST_DIGITS} are supported"
            raise YamlProblem(message, node.span.line, node.span.column)
        return _integer(text.replace("_", ""))
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    if special := _SPECIAL.match(text):
        value = math.inf if special[2].lower() == "inf" else math.nan
        return -value if special[1] == "-" else value
    return text


def _integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    if digits[:2] in ("0b", "0x", "0o"):
        return sign * int(digits, 0)
    return sign * int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10)


def _count(node: Node, known: dict[int, int], limit: int) -> int:
    """Return the number of values that `plain` would create. Each node of the graph is visited once."""
    if id(node) not in known:
        children: list[Node] = []
        if isinstance(node, Sequence):
            children = list(node.items)
        elif isinstance(node, Mapping):
            children = [value for _, value in node.entries]
        known[id(node)] = min(1 + sum(_count(child, known, limit) for child in children), limit + 1)
    return known[id(node)]
