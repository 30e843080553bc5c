"""Paths as a project or the user writes them: with the home folder for ~, and without links."""

from __future__ import annotations

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
    """Return the absolute path without links, like `Path.resolve`. A circular link is kept.

    Before Python 3.13, `Path.resolve` raises RuntimeError for a circular link. git stores such links.
    """
    return Path(os.path.realpath(path))
