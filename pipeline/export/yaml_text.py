"""Parts of a YAML document as text, so that its comments and shell commands stay readable."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence


def quoted(text: str) -> str:
    """Return the text as a double-quoted YAML scalar; every JSON string is one."""
    return json.dumps(text, ensure_ascii=False)


def block(key: str, lines: Sequence[str], *, item: bool = False) -> Iterator[str]:
    """Yield `key` with the lines as a literal block scalar, or as the only item of a list."""
    yield f"{key}:" if item else f"{key}: |"
    if item:
        yield "  - |"
    yield from (f"{'    ' if item else '  '}{line}" for line in lines)
