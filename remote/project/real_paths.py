"""Paths of open files and folders without links: they show whether another user has put a link in their place."""

from __future__ import annotations

import fcntl
import os
import unicodedata
from collections.abc import Iterable
from io import FileIO
from pathlib import Path


def real_path_of(file: FileIO | int) -> str:
    """Return the path of an open file or folder without links. Links that were replaced since do not change it."""
    if hasattr(fcntl, "F_GETPATH"):
        return os.fsdecode(fcntl.fcntl(file, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return str(Path(f"/proc/self/fd/{file if isinstance(file, int) else file.fileno()}").readlink())


def is_inside(real: str, places: Iterable[Path]) -> bool:
    """Return True if the result of `real_path_of` is one of the resolved places, or in one of them."""
    path = _as_spelt(real)
    return any(path.is_relative_to(_as_spelt(str(place))) for place in places)


def _as_spelt(path: str) -> Path:
    """Return the path, on macOS without letter case: `Path.resolve` keeps it as given, the kernel as on the disk."""
    return Path(unicodedata.normalize("NFC", path).casefold() if hasattr(fcntl, "F_GETPATH") else path)
