"""The exception for files that do not parse."""

from __future__ import annotations


class Unparsable(Exception):
    """The file does not parse, so it is reported and not changed. `line` starts at 1."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
