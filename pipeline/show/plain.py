"""Texts that may come from a host, escaped so that they do not look like lines of halfstep."""

from __future__ import annotations

import re

from remote.link.host_hints import QUOTED
from remote.protocol.text import one_line

NEXT = "next: "
ON_HOST = re.compile(r"(?P<command>.*\S) {3}\((?P<place>on [^()']+)\)(?P<rest>|, or [^']*)")
"""A hint that is typed on a host. The place is shown before the command, instead of `next:`. It is never quoted."""


def headed(hint: str) -> tuple[str, str]:
    """Return the heading of a hint, and the hint: `next:` begins only what is typed on this machine."""
    if hint.startswith(QUOTED):
        return "", hint
    elsewhere = ON_HOST.fullmatch(hint)
    if elsewhere is None or elsewhere["command"].count("'") % 2:
        return NEXT, hint
    return f"{elsewhere['place']}: ", elsewhere["command"] + elsewhere["rest"]


def plain(text: str) -> str:
    """Return the text on one line, without control characters and without `next:`."""
    return without_next(one_line(text))


def without_next(text: str) -> str:
    """Escape `next:`, which begins only halfstep's own hints."""
    return text.replace(NEXT.strip(), r"next\x3a")


def unlike_hint(line: str) -> str:
    """Return a line of a file, escaped if it would look like a hint of halfstep."""
    return without_next(line) if line.lstrip().startswith(NEXT.strip()) else line
