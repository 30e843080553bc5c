"""The folders from which the training imports packages: those of PYTHONPATH, then those of its interpreter."""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import Iterable, List, Optional, Tuple

from remote.payload.processes.variables import expand_variables
from remote.payload.tree.state import Project

ASK = (
    # The first entry is the working folder, where a module could shadow the standard library. `sys` is built in.
    "import sys;sys.path[:]=[p for p in sys.path if p];"
    "import json;"
    "print(json.dumps({'version':list(sys.version_info[:3]),'prefix':sys.prefix,'paths':sys.path}))"
)
INSTALLED = ("site-packages", "dist-packages")
MOST_FOLDERS = 100


def asking_argv(python: str) -> List[str]:
    """Return the command that prints version, prefix and paths of an interpreter.

    -E leaves out PYTHONPATH, whose folders could contain a sitecustomize.py. Unlike -I, it keeps the packages that were
    installed with `pip install --user`, as the training does.
    """
    return [python, *(["-s"] if os.environ.get("PYTHONNOUSERSITE") else []), "-E", "-c", ASK]


def package_folders(own: Tuple[str, ...], configured: Optional[str], project: Project) -> Tuple[str, ...]:
    """Return the folders of PYTHONPATH and the entries `own` of the interpreter's sys.path that may contain packages.

    `configured` is the PYTHONPATH of the host's `env:`, which replaces that of the login files. Folders in which every
    user can create files, and folders of the project, are left out, apart from site-packages of the interpreter.
    """
    value = os.environ.get("PYTHONPATH", "") if configured is None else _expanded(configured)
    named = _trusted(value.split(os.pathsep), project)
    installed = [path for path in own if path.endswith(INSTALLED)]
    kept = {*installed, *_trusted((path for path in own if path not in installed), project)}
    return tuple(dict.fromkeys((*named, *(path for path in own if path in kept))))


def _expanded(value: str) -> str:
    return expand_variables({"PYTHONPATH": value})["PYTHONPATH"]


def _trusted(paths: Iterable[str], project: Project) -> List[str]:
    """Return the first of these paths that are folders outside of the project, and writable by their owner or group."""
    return [path for path in islice(dict.fromkeys(paths), MOST_FOLDERS) if _is_trusted(path, project)]


def _is_trusted(path: str, project: Project) -> bool:
    if not os.path.isabs(path):
        return False
    try:
        status, place = os.stat(path), os.path.realpath(path)
    except (OSError, ValueError):
        return False
    root = os.path.realpath(project.root)
    inside = place == root or place.startswith(f"{root}/")
    return stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_IWOTH and not inside
