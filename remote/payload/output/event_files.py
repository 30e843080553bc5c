"""Find files that a run produced, such as TensorBoard event files, by name. Links are never followed."""

from __future__ import annotations

import json
import os
from typing import Callable, FrozenSet, Iterator, List, Tuple

from remote.protocol.events import MARK, OUTSIDE, ROOTS
from remote.protocol.layout import ProjectLayout, RunLayout

SKIPPED = frozenset({".git", "__pycache__", "node_modules", "venv", ".venv"})
MAX_DEPTH = 8
MAX_FILES = 10_000
Wanted = Callable[[str], bool]


def find_events(run_root: str, roots: Tuple[str, ...] = ROOTS) -> List[Tuple[str, str]]:
    """Return (name, path) of every event file, sorted. Files that were sent with the project are excluded.

    If `logs.tensorboard` in the config is a folder outside the run's folder, the files that were written to that folder
    since the run began are included, under names that begin with `outside/`.
    """
    files = find_output_files(run_root, tuple(root for root in roots if root != OUTSIDE), _is_event_file)
    outside = outside_folder(run_root) if OUTSIDE in roots else ""
    if outside:
        began = os.stat(RunLayout(run_root).record).st_mtime_ns
        walked = _walk(OUTSIDE, outside, 1, _is_event_file)
        files += [(name, path) for name, path in walked if os.lstat(path).st_mtime_ns >= began]
    return sorted(files)[:MAX_FILES]


def find_output_files(run_root: str, roots: Tuple[str, ...], wanted: Wanted) -> List[Tuple[str, str]]:
    """Return (name, path) of every regular file if `wanted` returns True for its name.

    Files that were sent with the project are excluded.
    """
    files = [pair for root in roots for pair in _walk(root, os.path.join(run_root, root), 1, wanted)]
    if any(name.startswith("code/") for name, _ in files):
        sent = _sent_with_project(run_root)
        files = [(name, path) for name, path in files if name not in sent]
    return files


def _is_event_file(name: str) -> bool:
    return MARK in name


def resolve(run_root: str, name: str) -> str:
    """Return the path of the event file with the name `name`."""
    first, _, remainder = name.partition("/")
    return (
        os.path.join(outside_folder(run_root) or run_root, remainder)
        if first == OUTSIDE
        else os.path.join(run_root, name)
    )


def outside_folder(run_root: str) -> str:
    """Return the real path of the folder `logs.tensorboard` in the config.

    Return "" if this folder does not exist or is inside the run's folder.
    """
    run = RunLayout(run_root)
    try:
        with open(run.record, encoding="utf-8", errors="surrogateescape") as file:
            named = str(json.load(file)["settings"]["config"]["logs"]["tensorboard"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    folder = os.path.realpath(os.path.join(run.code, os.path.expanduser(named)))
    inside = (folder + os.sep).startswith(os.path.realpath(run_root) + os.sep)
    return "" if named == "auto" or inside or not os.path.isdir(folder) else folder


def _walk(name: str, folder: str, depth: int, wanted: Wanted) -> Iterator[Tuple[str, str]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        below = f"{name}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if depth < MAX_DEPTH and entry.name not in SKIPPED:
                yield from _walk(below, entry.path, depth + 1, wanted)
        elif wanted(entry.name) and entry.is_file(follow_symlinks=False):
            yield below, entry.path


def _sent_with_project(run_root: str) -> FrozenSet[str]:
    """Return the names under code/ that the laptop sent, such as event files of the user's earlier runs."""
    project = os.path.dirname(os.path.dirname(run_root))
    manifest = os.path.join(project, os.path.basename(ProjectLayout("x").manifest))
    try:
        with open(manifest, encoding="utf-8", errors="surrogateescape") as file:
            return frozenset(f"code/{path}" for path in json.load(file)["rows"])
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()
