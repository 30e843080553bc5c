"""Search a folder that other tests and programs use at the same time, such as /dev/shm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def own_files(place: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield path and content of the user's files below the folder, without the temporary folders of other tests.

    Files and folders that disappear meanwhile are left out.
    """
    for folder, names, files in os.walk(place):
        names[:] = [name for name in names if not name.startswith("pytest-of-")]
        for path in (Path(folder, name) for name in files):
            try:
                if path.is_file() and not path.is_symlink() and path.stat().st_uid == os.getuid():
                    yield path, path.read_bytes()
            except FileNotFoundError:
                continue
