"""Find the trainer checkpoints that the jobs of a run saved. Those that were sent with the project do not count."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import Callable, List, Tuple

from remote.payload.checkpoints.files import OPTIMIZER, STATE, WEIGHTS, list_names, step_of
from remote.payload.checkpoints.own_format import without_own_formats
from remote.payload.files.records import read_record, write_record
from remote.protocol.dataclass import dataclass
from remote.protocol.layout import RunLayout

KEPT = "kept"
EARLIER_CODE = "code-before-job-"
SKIPPED_FOLDERS = ("node_modules", "site-packages", "__pycache__")
SEARCH_DEPTH = 5


@dataclass(frozen=True)
class SentCheckpoints:
    """The checkpoints that a run's copy of the project contained before its first job, each as `_identity` states it.

    A project may contain the checkpoints of an earlier training, for example in its Git repository.
    """

    identities: Tuple[str, ...] = ()


def record_sent(run_root: str, code: str) -> None:
    """Add the checkpoints in `code`, a new copy of the project, to the run's record of sent checkpoints."""
    folders: List[str] = []
    _search(code, 0, folders)
    if folders:
        path = RunLayout(run_root).sent_checkpoints
        before = read_record(path, SentCheckpoints) or SentCheckpoints()
        identities = {*before.identities, *(_identity(code, folder) for folder in folders)}
        write_record(path, SentCheckpoints(tuple(sorted(identities))))


def find_checkpoints(run_root: str) -> List[str]:
    """Return every checkpoint-N folder that a job of the run wrote, newest step first.

    For equal steps, checkpoints/ and code/ come first. A checkpoint that was sent with the project counts only if a job
    has replaced its weights, its optimizer or its trainer state. A folder that the script wrote in another format than
    Trainer's is left out.
    """
    try:
        earlier = sorted(name for name in os.listdir(run_root) if name.startswith(EARLIER_CODE))
    except OSError:
        return []
    was_sent = _sent_with_project(run_root)
    folders: List[str] = []
    for parent in ("checkpoints", "code", *earlier, KEPT):
        root = os.path.join(run_root, parent)
        found: List[str] = []
        _search(root, 0, found)
        folders += [folder for folder in found if parent in ("checkpoints", KEPT) or not was_sent(root, folder)]
    # The sort is stable, so checkpoints of the same step keep the order of their parent folders.
    return sorted(without_own_formats(RunLayout(run_root), folders), key=step_of, reverse=True)


def _sent_with_project(run_root: str) -> Callable[[str, str], bool]:
    sent = read_record(RunLayout(run_root).sent_checkpoints, SentCheckpoints)
    identities = frozenset(sent.identities) if sent is not None else frozenset()
    return lambda code, folder: bool(identities) and _identity(code, folder) in identities


def _search(folder: str, depth: int, folders: List[str]) -> None:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        # Links are skipped, because a linked folder of the tree is shared with other runs.
        if not entry.is_dir(follow_symlinks=False) or entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS:
            continue
        if step_of(entry.name) >= 0:
            folders.append(entry.path)
        elif depth < SEARCH_DEPTH and not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
            _search(entry.path, depth + 1, folders)


def _identity(code: str, folder: str) -> str:
    """Return a digest of the checkpoint's place in `code`, and of the sizes and times of the files that a save writes.

    Files that an evaluation adds to the folder do not change it. Inodes and ctimes are left out, because they change
    when a hard link of a large file is replaced with a copy.
    """
    rows = [os.path.relpath(folder, code)]
    for name in list_names(folder):
        if name == STATE or WEIGHTS.match(name) or OPTIMIZER.match(name):
            with contextlib.suppress(FileNotFoundError):  # A job may be removing the checkpoint.
                status = os.stat(os.path.join(folder, name))
                rows.append(f"{name}\0{status.st_size}\0{status.st_mtime_ns}")
    return hashlib.sha256("\n".join(rows).encode("utf-8", "surrogateescape")).hexdigest()
