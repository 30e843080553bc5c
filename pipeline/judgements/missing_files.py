"""Explain why a file or folder that a script opened is missing on the host, by the files of the laptop. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from pipeline.judgements.left_out import LeftOut, lines_hint
from pipeline.judgements.path_text import is_windows
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding
from remote.protocol.shell import is_plain
from remote.protocol.text import one_line

CHECKS = frozenset({"dataset-folder-missing", "file-missing"})
"""The entries of the catalog whose names are paths."""
ON_HOST = re.compile(r"^.*/projects/[^/]+-[0-9a-f]{8}/(?:tree|runs/[^/]+/code|scratch/[^/]+/(?:run/code|[^/]+))/")
HYDRA = re.compile(r"^(?:outputs/[\d-]{10}/[\d-]{8}|multirun/[\d-]{10}/[\d-]{8}/\d+)/")
"""Matches the working folder of a job that Hydra starts, below the folder of the command."""
ELSEWHERE = "the script searched for it in another working folder, or it was added after the job had started"
OWN_FOLDER = "make the path absolute before the script or Hydra changes the working folder"
OF_HYDRA = "with Hydra, add hydra.run.dir=. to the command"
FILE = re.compile(r"[./]")
LONGEST = 1000


@dataclass(frozen=True)
class LaptopFiles:
    """The project on the laptop.

    `is_sent` returns True for a file that is sent, and for a folder from which a file is sent. `nearest` returns the
    existing path of the project that is most similar to a missing one, or "". `pattern_for` returns the ignore pattern
    that excludes a path, and where it is written, or "".
    """

    root: str
    project: LeftOut
    is_sent: Callable[[str], bool]
    nearest: Callable[[str], str]
    pattern_for: Callable[[str], str]
    exists: Callable[[str], bool]


def explain_missing(finding: Finding, names: Sequence[str], laptop: LaptopFiles) -> Finding:
    """Return the finding about the first of the missing paths whose cause the laptop's files show, else unchanged."""
    for name in names if finding.check in CHECKS else ():
        explained = _explained(finding, name, laptop)
        if explained is not None:
            return explained
    return finding


def path_in_project(name: str, root: str) -> str:
    """Return a path of an error message relative to the project's root, or "" for a path outside the project."""
    if not name or len(name) > LONGEST or is_windows(name) or name.startswith("~") or "://" in name or "\0" in name:
        return ""
    path = posixpath.normpath(ON_HOST.sub("", name))
    path = posixpath.relpath(path, root) if path.startswith("/") else path
    return "" if path.startswith("..") or path == "." else path


def _explained(finding: Finding, name: str, laptop: LaptopFiles) -> Finding | None:
    path = path_in_project(name, laptop.root)
    if not path:
        return _outside(finding, name, laptop)
    path, is_relative = _below_hydra(path, laptop), not name.startswith("/")
    if not laptop.project.exists(path):
        near = laptop.nearest(path)
        may_be_program = not near and not FILE.search(path)
        return None if may_be_program else _nowhere(finding, path, near)
    if laptop.is_sent(path):
        is_elsewhere = is_relative or HYDRA.search(path_in_project(name, laptop.root))
        return _elsewhere(finding, path) if is_elsewhere else None
    pattern = laptop.pattern_for(path)
    message = f"{one_line(path)} is not sent to the host: {pattern or '.gitignore or .pipelineignore'} excludes it"
    hint = lines_hint(path, laptop.project)
    return replace(finding, message=message, hint=f"{hint}; or data: {{path: ...}}, read from $HALFSTEP_DATA_DIR")


def _below_hydra(path: str, laptop: LaptopFiles) -> str:
    """Return the path in the folder of the command, for a path in a working folder that Hydra created below it."""
    bare = HYDRA.sub("", path)
    return bare if bare != path and laptop.project.exists(bare) else path


def _elsewhere(finding: Finding, path: str) -> Finding:
    message = f"{one_line(path)} is in the project and is sent: {ELSEWHERE}"
    return replace(finding, message=message, hint=f"{OWN_FOLDER}; {OF_HYDRA}")


def _outside(finding: Finding, name: str, laptop: LaptopFiles) -> Finding | None:
    if not name.startswith("/") or not laptop.exists(name):
        return None
    return replace(finding, message=f"{one_line(name)} is on this machine, outside the project, and not on the host")


def _nowhere(finding: Finding, path: str, near: str) -> Finding:
    message = f"{one_line(path)} exists neither on the host nor in the project on this machine"
    hint = "correct the path, or create the file in the command before the script reads it"
    if near and is_plain(near):
        message, hint = f"{message}; the most similar path is {near}", f"correct the path: {near}"
    return replace(finding, message=message, hint=hint)
