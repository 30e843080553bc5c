"""The exception for files that do not parse."""

from __future__ import annotations

LARGEST_TEXT = 4 * 2**20
"""The largest shell script, requirements file or settings file whose words or lines are analysed."""


class Unparsable(Exception):
    """The file does not parse, so it is reported and not changed. `line` starts at 1."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def require_small(size: int, limit: int = LARGEST_TEXT) -> None:
    """Raise Unparsable for more bytes than the limit: what a parser returns takes up to 300 times their memory."""
    if size > limit:
        raise Unparsable(f"{size} bytes: too large to be a source file")
