"""The folders of the project in PYTHONPATH. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import isabs, normpath


def python_path(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders in PYTHONPATH."""
    return tuple(filter(None, env.get("PYTHONPATH", "").split(":")))


def project_folders(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the relative folders in PYTHONPATH, which Python searches from the project's folder."""
    found = (normpath(folder) for folder in python_path(env) if not isabs(folder))
    return tuple("" if folder == "." else folder for folder in found)
