"""The project's files in a local folder."""

from __future__ import annotations

import errno
import hashlib
import os
from functools import cached_property
from io import FileIO
from pathlib import Path

from remote.errors import FixRefused
from remote.project.included_files import walk_project
from remote.project.limits import Limits, too_much_python
from remote.project.paths import resolved
from remote.project.real_paths import is_inside, real_path_of
from remote.protocol.regular import open_regular

LARGEST_SOURCE_BYTES = 16 * 2**20
"""A larger file counts as data and is not read: a cloned project may contain a sparse file of any size."""
TOO_LARGE = "too large to be a source file"
REPLACED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE)
"""The errors which show that a listed path is no longer the same file."""


class DiskTree:
    """The project's regular files under `root`, by POSIX path. Symbolic links are excluded.

    The folder is walked once, when its paths are first used. A file is read at every access.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = f"{root}{os.sep}"
        self._places = [resolved(root)]

    def paths(self) -> tuple[str, ...]:
        """Return the sorted paths of all files.

        Raises FixRefused if a folder cannot be listed, or if there are too many files or too much Python code.
        """
        return self._paths

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises OSError if the file cannot be read or is too large, and FixRefused if a listed file is missing or
        replaced: since the folder was walked, the project was changed, or another user has put a link in place of the
        file or above it.
        """
        try:
            with open_regular(f"{self._prefix}{path}") as file:
                if not is_inside(real_path_of(file), self._places):
                    raise OSError(errno.ESTALE, "replaced by a link", path)
                return _read(file, path)
        except OSError as error:
            if error.errno not in REPLACED or path not in self.__dict__.get("_paths", ()):
                raise
            why = error.strerror or "it is no longer a regular file"
            raise FixRefused(
                f"{path} was changed while the project was read: {why}", where=path, hint="run the same command again"
            ) from None

    def digest(self, path: str) -> str:
        return hashlib.sha256(self.read(path)).hexdigest()

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        walk = walk_project(self.root)
        problems = {**walk.unreadable, **dict.fromkeys(walk.too_deep, "nested too deeply")}
        for folder, why in problems.items():
            raise FixRefused(
                f"{folder or self.root} cannot be read: {why}", where=folder, hint="add it to .pipelineignore"
            )
        if walk.cut:
            raise FixRefused(f"{self.root} holds too many files", hint="add files that are not code to .pipelineignore")
        sizes = {path: file.st_size for path, file in walk.files.items() if file.st_size <= LARGEST_SOURCE_BYTES}
        if message := too_much_python(sizes, Limits()):
            raise FixRefused(message, hint="add folders that the training does not need to .pipelineignore")
        return tuple(sorted(walk.files))


def _read(file: FileIO, path: str) -> bytes:
    """Return the content. Raises OSError with EFBIG for a file that is too large, and ESTALE for one that has grown."""
    size, data = os.fstat(file.fileno()).st_size, b""
    if size > LARGEST_SOURCE_BYTES:
        raise OSError(errno.EFBIG, f"{size} bytes: {TOO_LARGE}", path)
    while more := file.read(size + 1 - len(data)):
        data += more
    if len(data) > size:
        raise OSError(errno.ESTALE, "it became larger", path)
    return data
