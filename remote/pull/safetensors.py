"""Check that a safetensors file matches its header, without loading a tensor.

The format has no checksum, so only a digest can verify the data. The header describes every byte of the data, see the
section "Format" of the library's README.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

MAX_HEADER = 32 * 2**20
MAX_VALUES = 1_000_000
"""The maximum number of values in a header, which allows more than 100,000 tensors. Parsed values take many times the
memory of their text.
"""
MAX_RANK = 64
"""torch's own limit."""
BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


def judge_safetensors(path: Path) -> str:
    """Return why the file is not a valid safetensors file, or ""."""
    try:
        header, data_bytes = _read_header(path)
    except ValueError as error:
        return str(error)
    spans = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        span = _span(entry)
        if span is None:
            return f"the header's entry for {name!r} is inconsistent"
        spans.append(span)
    return _judge_spans(sorted(spans), data_bytes)


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor by its name. Return {} if the file is not a valid safetensors file."""
    if judge_safetensors(path):
        return {}
    header, _ = _read_header(path)
    return {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header, and the number of bytes after it. Raises ValueError."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER, size - 8):
            raise ValueError(f"the header would have {length} bytes, but the file has {size}")
        raw = file.read(length)
    if sum(map(raw.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"the header has more than {MAX_VALUES} values")
    try:
        header = json.loads(raw, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    return header, size - 8 - length


def _judge_spans(spans: list[tuple[int, int]], data_bytes: int) -> str:
    at = 0
    for begin, end in spans:
        if begin != at:
            return f"tensors leave a gap or overlap at byte {at} of the data"
        at = end
    return "" if at == data_bytes else f"the header describes {at} bytes of data, but the file has {data_bytes}"


def _span(entry: Any) -> tuple[int, int] | None:
    try:
        begin, end = entry["data_offsets"]
        shape, bits = entry["shape"], BITS[entry["dtype"]]
        if len(shape) > MAX_RANK or any(type(number) is not int or number < 0 for number in (begin, end, *shape)):
            return None
    except (KeyError, TypeError, ValueError):
        return None
    return (begin, end) if (end - begin) * 8 == math.prod(shape) * bits else None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice")
    return result


def is_safetensors(name: str) -> bool:
    """Return True if the name has the extension of safetensors files."""
    return name.endswith(".safetensors")
