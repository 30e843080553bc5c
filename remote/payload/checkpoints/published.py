"""Publish trainer checkpoints with a manifest of digests; verify, list, rotate and rename checkpoints."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from typing import Dict, Iterable, List, Optional

from remote.payload.checkpoints.files import (
    MANIFEST,
    STATE,
    VERDICT,
    BrokenCheckpoint,
    judge_file,
    judge_names,
    list_names,
    read_step,
    step_of,
)
from remote.payload.checkpoints.found import KEPT, find_checkpoints
from remote.payload.files.atomic import sync_folder
from remote.payload.files.records import read_record, write_record
from remote.protocol.dataclass import dataclass, field
from remote.protocol.jobs import Checkpoint

VERSION = 1
TRASH = ".trash-"
BROKEN = "broken-"
CHUNK = 4 * 2**20


@dataclass(frozen=True)
class FileDigest:
    """The size and the digest that one file had when it was published."""

    size: int
    sha256: str


@dataclass(frozen=True)
class CheckpointManifest:
    """The manifest of a checkpoint. It is written after all other files of the checkpoint.

    `world_size` is the number of ranks that saved; `scaler` is True if the checkpoint contains a loss scale.
    """

    step: int
    files: Dict[str, FileDigest]
    world_size: int = 1
    scaler: bool = False
    published_unix: float = 0.0
    version: int = VERSION


@dataclass(frozen=True)
class Verdict:
    """A stored verification. It is valid until the size, a timestamp or the inode of a file changes."""

    signature: str
    notes: Dict[str, str] = field(default_factory=dict)


def publish(folder: str, *, world_size: int = 1, scaler: Optional[bool] = None) -> CheckpointManifest:
    """Check and sync every file of the checkpoint, then write its manifest.

    Call it on one rank, after a barrier. `scaler` is True if the checkpoint must contain a loss scale. If `scaler` is
    None, a loss scale is required only if another checkpoint in the same folder contains a loss scale. Raises
    BrokenCheckpoint.
    """
    if scaler is None:
        scaler = _siblings_have_scaler(folder)
    names = list_names(folder)
    problem = judge_names(names, world_size=world_size, scaler=scaler)
    problem = problem or next(filter(None, (judge_file(folder, name) for name in names)), "")
    step = read_step(folder)
    if not problem and step != step_of(folder):
        problem = f"trainer_state.json has step {step}"
    if problem:
        raise BrokenCheckpoint(f"{os.path.basename(folder)}: {problem}")
    files = {name: _sync_and_digest(os.path.join(folder, name)) for name in names}
    for parent in {os.path.dirname(os.path.join(folder, name)) for name in names}:
        sync_folder(parent)
    manifest = CheckpointManifest(step_of(folder), files, world_size, scaler, time.time())
    write_record(os.path.join(folder, MANIFEST), manifest)
    sync_folder(os.path.dirname(os.path.abspath(folder)))
    _write_verdict(folder, files)
    return manifest


def verify(folder: str, *, trust_stat: bool = False) -> str:
    """Return why a job cannot resume from the checkpoint, with the name of the file, or "" if every digest matches.

    If `trust_stat` is True, a stored verification counts as long as the size, times and inode of no file have changed.
    """
    manifest = read_record(os.path.join(folder, MANIFEST), CheckpointManifest)
    if manifest is None:
        exists = os.path.exists(os.path.join(folder, MANIFEST))
        return f"{MANIFEST}: damaged" if exists else f"no {MANIFEST}: its save is in progress or was interrupted"
    if manifest.version > VERSION:
        return f"{MANIFEST}: version {manifest.version}, this halfstep supports up to {VERSION}"
    if manifest.step != step_of(folder):
        return f"{MANIFEST} has step {manifest.step}"
    problem = judge_names(sorted(manifest.files), world_size=manifest.world_size, scaler=manifest.scaler)
    if problem:
        return problem
    if trust_stat:
        verdict = read_record(os.path.join(folder, VERDICT), Verdict)
        if verdict is not None and verdict.signature == signature(folder, manifest.files):
            return ""
    return _compare(folder, manifest)


def _compare(folder: str, manifest: CheckpointManifest) -> str:
    for name, published in sorted(manifest.files.items()):
        path = os.path.join(folder, name)
        try:
            size = os.path.getsize(path)
            if size != published.size:
                return f"{name} has {size} bytes, but had {published.size} bytes when it was published"
            if _digest(path) != published.sha256:
                return f"{name}: its bytes changed since it was published"
        except OSError as error:
            return f"{name}: {error.strerror or error}"
    step = read_step(folder)
    return "" if step == manifest.step else f"trainer_state.json: step {step}, not {manifest.step}"


def remember_verdict(folder: str) -> None:
    """Store a successful verification for `verify(..., trust_stat=True)`. Call it after `verify` found no problem."""
    manifest = read_record(os.path.join(folder, MANIFEST), CheckpointManifest)
    if manifest is not None:
        _write_verdict(folder, manifest.files)


def _write_verdict(folder: str, names: Iterable[str]) -> None:
    """Store a successful verification, then reset the folder's mtime to that of its newest file.

    transformers' `rotate_checkpoints` deletes the folders with the oldest mtime, and every record that is written into
    a checkpoint changes its mtime (trainer_utils.py, `sort_checkpoints`).
    """
    write_record(os.path.join(folder, VERDICT), Verdict(signature(folder, names)))
    saved = max(os.stat(os.path.join(folder, name)).st_mtime_ns for name in names)
    os.utime(folder, ns=(saved, saved))


def signature(folder: str, names: Iterable[str]) -> str:
    """Return a digest of the files' sizes, times and inodes, or "" if a file is missing."""
    rows = []
    for name in sorted(names):
        try:
            status = os.stat(os.path.join(folder, name))
        except OSError:
            return ""
        rows.append(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\0{status.st_ino}")
    return hashlib.sha256("\n".join(rows).encode("utf-8", "surrogateescape")).hexdigest()


def unpublished(run_root: str) -> List[str]:
    """Return the checkpoints that have a trainer state but no manifest.

    They were saved by a user's script, or their publication was interrupted.
    """
    return [
        folder
        for folder in find_checkpoints(run_root)
        if os.path.exists(os.path.join(folder, STATE)) and not os.path.exists(os.path.join(folder, MANIFEST))
    ]


def survey_checkpoints(run_root: str, *, digests: bool) -> List[Checkpoint]:
    """Return every checkpoint, newest first, with names relative to the run.

    If `digests` is False, the checkpoints are listed without verification. A kept copy of a listed checkpoint is left
    out.
    """
    rows: List[Checkpoint] = []
    for path in find_checkpoints(run_root):
        name, step = os.path.relpath(path, run_root), step_of(path)
        problem = verify(path, trust_stat=True) if digests else "not verified"
        again = rows and rows[-1].step == step and rows[-1].problem in ("", problem)
        if not (again and name.startswith(KEPT + os.sep)):
            rows.append(Checkpoint(name, step, size_of(path), problem))
    return rows


def size_of(folder: str) -> int:
    """Return the size of a checkpoint in bytes according to its manifest, or 0 without a manifest."""
    manifest = read_record(os.path.join(folder, MANIFEST), CheckpointManifest)
    return sum(row.size for row in manifest.files.values()) if manifest is not None else 0


def newest_verified(run_root: str, *, trust_stat: bool = False) -> Optional[Checkpoint]:
    """Return the newest checkpoint of the run that passes verification, or None."""
    for path in find_checkpoints(run_root):
        if not verify(path, trust_stat=trust_stat):
            return Checkpoint(os.path.relpath(path, run_root), step_of(path), size_of(path))
    return None


def set_aside(folder: str) -> str:
    """Rename a broken checkpoint so that no trainer resumes from it, and return its new path. Nothing is deleted."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    parent, name = os.path.split(folder)
    target = os.path.join(parent, f"{BROKEN}{name}-{stamp}")
    while os.path.lexists(target):
        target = os.path.join(parent, f"{BROKEN}{name}-{stamp}-{secrets.token_hex(2)}")
    os.rename(folder, target)
    sync_folder(parent)
    return target


def rotate(parent: str, keep: int, *, also: Iterable[str] = ()) -> List[str]:
    """Delete verified checkpoints, except the newest `keep` checkpoints and those in `also`; return the deleted names.

    Nothing is deleted if the newest checkpoint fails verification. Broken checkpoints are never deleted;
    `jobs.resume.prepare` renames them.
    """
    _empty_trash(parent)
    names = sorted((name for name in os.listdir(parent) if step_of(name) >= 0), key=step_of, reverse=True)
    paths = [os.path.join(parent, name) for name in names]
    if not paths or verify(paths[0], trust_stat=True):
        return []
    kept_names = {os.path.basename(name.rstrip("/")) for name in also}
    verified = [path for path in paths if not verify(path, trust_stat=True)]
    removed = [path for path in verified[max(keep, 1) :] if os.path.basename(path) not in kept_names]
    for path in removed:
        os.rename(path, os.path.join(parent, f"{TRASH}{os.path.basename(path)}-{secrets.token_hex(4)}"))
    sync_folder(parent)
    _empty_trash(parent)
    return [os.path.basename(path) for path in removed]


def _empty_trash(parent: str) -> None:
    for name in os.listdir(parent):
        if name.startswith(TRASH):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)


def _siblings_have_scaler(folder: str) -> bool:
    parent = os.path.dirname(os.path.abspath(folder))
    return any(os.path.exists(os.path.join(parent, n, "scaler.pt")) for n in os.listdir(parent) if step_of(n) >= 0)


def _sync_and_digest(path: str) -> FileDigest:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    return FileDigest(size, _digest(path))


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
