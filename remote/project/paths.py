"""Resolve and test paths that a project or the user writes: ~ is expanded, links are followed, any length will do."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def expanded(path: str | Path) -> Path:
    """Return the path with ~ and ~USER replaced by home folders. A user who does not exist is kept, as by git.

    `Path.expanduser` raises RuntimeError instead.
    """
    try:
        return Path(os.path.expanduser(path))  # noqa: PTH111 (see above)
    except ValueError:  # a character that no name of a user has
        return Path(path)


def resolved(path: str | Path) -> Path:
    """Return the absolute path without links, like `Path.resolve`. Links that are circular or not readable are kept.

    Before Python 3.13, `Path.resolve` raises RuntimeError for a circular link. git stores such links.
    """
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):  # a link that the user may not read, such as /proc/1/cwd, or a NUL character
        return Path(os.path.abspath(path))  # noqa: PTH100 (Path.absolute keeps ..)


def exists(path: str | Path) -> bool:
    """Return True if there is a file or folder, and False if none can be found.

    `Path.exists` raises OSError for a name that is too long and below a folder that the user may not enter.
    """
    return os.path.exists(path)  # noqa: PTH110 (see above)


def is_folder(path: str | Path) -> bool:
    """Return True for a folder, and False if none can be found; see `exists`."""
    return os.path.isdir(path)  # noqa: PTH112 (see exists)


def is_file(path: str | Path) -> bool:
    """Return True for a file, and False if none can be found; see `exists`."""
    return os.path.isfile(path)  # noqa: PTH113 (see exists)


def why_hidden(path: str | Path) -> str:
    """Return why it cannot be seen whether `path` exists, such as "Permission denied", or "" if it can be seen."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL character
        return ""
    except OSError as error:  # a circular link leads to nothing
        return "" if error.errno == errno.ELOOP else error.strerror or str(error)
    return ""
