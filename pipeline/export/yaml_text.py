"""Format parts of a YAML document as text, so that its comments and shell commands are readable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
"""Line breaks of YAML, and characters that YAML forbids outside of double quotes."""


def quoted(text: str) -> str:
    """Return the text as a double-quoted YAML scalar. A JSON string has the same syntax."""
    return UNPRINTABLE.sub(lambda one: f"\\u{ord(one[0]):04x}", json.dumps(text, ensure_ascii=False))


def block(key: str, lines: Sequence[str], *, item: bool = False) -> Iterator[str]:
    """Yield `key` with the lines as a literal block scalar or, with `item`, as the only item of a list.

    If a line contains a line break, which would end the block, the scalar is double-quoted instead.
    """
    if any(UNPRINTABLE.search(line) for line in lines):
        text = quoted("".join(f"{line}\n" for line in lines))
        yield f"{key}: {f'[{text}]' if item else text}"
        return
    yield f"{key}:" if item else f"{key}: |"
    if item:
        yield "  - |"
    yield from (f"{'    ' if item else '  '}{line}" for line in lines)
