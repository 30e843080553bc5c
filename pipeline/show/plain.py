"""Texts that may come from a host, escaped so that they do not look like lines of halfstep."""

from __future__ import annotations

from remote.protocol.text import one_line

NEXT = "next: "


def plain(text: str) -> str:
    """Return the text on one line, without control characters and without `next:`."""
    return without_next(one_line(text))


def without_next(text: str) -> str:
    """Escape `next:`, which begins only halfstep's own hints."""
    return text.replace(NEXT.strip(), r"next\x3a")
