"""The one thing that is raised where a file cannot be read as its language."""

from __future__ import annotations


class Unparsable(Exception):
    """The file cannot be read as what its name says; it is reported and never touched. `line` counts from 1."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
