"""Source lines in a running process: the project's line that made a call, and the installed code that it called."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Dict, Optional, Tuple

PROJECT = "HALFSTEP_PROJECT"
"""The environment variable with the project's folder. Without it, the folder in which the process started is used."""
INSTALLED = ("site-packages", "dist-packages")
SKIPPED = ("torch", "contextlib", "dataclasses")
_OWN = os.path.dirname(os.path.abspath(__file__))


@dataclass(frozen=True)
class Place:
    """A source line. `file` and `line` are in the project, or empty if the project's code did not make the call.

    `file` is relative to the project. `installed` is the called package code as `package/module.py:12`; it is empty for
    torch.
    """

    file: str = ""
    line: int = 0
    installed: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else self.installed


class Project:
    """The project folder as this process sees it."""

    def __init__(self) -> None:
        self._start = os.getcwd()
        self.root = os.path.realpath(os.environ.get(PROJECT) or self._start)
        self._relative: Dict[str, Optional[str]] = {}

    def relative(self, path: str) -> Optional[str]:
        """Return a path relative to the project, or None if it is outside the project or in an installed package."""
        if path not in self._relative:
            absolute = os.path.realpath(os.path.join(self._start, path))
            inside = absolute.startswith(self.root + os.sep) and not absolute.startswith(
                os.path.realpath(_OWN) + os.sep
            )
            inside = inside and not set(INSTALLED) & set(absolute.split(os.sep))
            self._relative[path] = os.path.relpath(absolute, self.root) if inside else None
        return self._relative[path]

    def place(self, skipped: Tuple[str, ...] = ()) -> Place:
        """Return the innermost line of the project on this thread's stack, ignoring the packages in `skipped`."""
        frame: Optional[FrameType] = sys._getframe(1)
        installed = ""
        while frame is not None:
            name = frame.f_code.co_filename
            relative = None if name.startswith("<") else self.relative(name)
            if relative is not None:
                return Place(relative, frame.f_lineno, installed)
            package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if not (installed or name.startswith(("<", _OWN)) or package in (*SKIPPED, *skipped)):
                installed = f"{_package_path(name)}:{frame.f_lineno}"
            frame = frame.f_back
        return Place("", 0, installed)

    def place_of(self, code: CodeType) -> Place:
        """Return the first line of a function, in the project or in an installed package."""
        relative, line = self.relative(code.co_filename), code.co_firstlineno
        if relative is not None:
            return Place(relative, line)
        return Place(installed=f"{_package_path(code.co_filename)}:{line}")


def _package_path(path: str) -> str:
    """Return the path below site-packages, or the last two parts of another path."""
    parts = path.split(os.sep)
    below = [at for at, part in enumerate(parts) if part in INSTALLED]
    return "/".join(parts[below[-1] + 1 :] if below else parts[-2:])
