"""What functions find in the texts of a project: each text is searched once, although many programs share it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

Found = TypeVar("Found")


class TextFacts:
    """The results of functions for the texts of files. They must be small, because all of them are kept."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._known: dict[Callable[[bytes], Any], dict[str, Any]] = {}

    def of(self, path: str, find: Callable[[bytes], Found]) -> Found:
        """Return what `find` returns for the text of the file, or for an empty text if the file cannot be read.

        `find` must be a function of a module: its results are kept under the function itself.
        """
        known = self._known.setdefault(find, {})
        if path not in known:
            known[path] = find(self._text(path))
        return cast(Found, known[path])

    def _text(self, path: str) -> bytes:
        with suppress(OSError):
            return self._read(path)
        return b""
