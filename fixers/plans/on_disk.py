"""Apply a plan to a local folder, and undo it. Files are replaced atomically, and originals are kept."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from fixers.frame.change import FileChange, Plan
from fixers.frame.findings import warning
from remote.errors import Busy, FixRefused
from remote.project.digests import read_json
from remote.project.open_folders import opened_parent, opened_root
from remote.project.records_folder import (
    RECORDS_FOLDER,
    create_folder,
    exclude_from_git,
    open_lock,
    opened_folder,
    refuse_links,
    require_own_file,
)
from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import Finding
from remote.protocol.parts import write_beside
from remote.protocol.regular import open_regular
from remote.protocol.values import decode, dumps

UNDO = PurePosixPath(RECORDS_FOLDER, "undo")
ORIGINALS = UNDO / "originals"
LINK = frozenset({errno.ENOTDIR, errno.ELOOP})
DIGEST = re.compile("[0-9a-f]{64}")
NEVER_FIXED = frozenset({".git", RECORDS_FOLDER})


@dataclass(frozen=True)
class Step:
    """One rewritten file: the digest of its original, and the digests of all contents that fixes wrote."""

    before: str
    ours: tuple[str, ...]


@dataclass(frozen=True)
class Journal:
    """The record of all rewritten files, except files whose fix was undone."""

    steps: dict[str, Step] = field(default_factory=dict)


@dataclass(frozen=True)
class Present:
    """A file of the project as it was read, in a folder that is open."""

    folder: int
    name: str
    digest: str
    mode: int


@dataclass(frozen=True)
class Undone:
    """The files that were restored, and findings for files that were edited after the fix."""

    restored: tuple[str, ...]
    findings: tuple[Finding, ...]


def apply_to_disk(root: Path, plan: Plan) -> tuple[str, ...]:
    """Write the planned content of every file and return their paths.

    Raises FixRefused before any change if a file differs from the planned original. After an interruption, planning
    and applying again gives the same result.
    """
    changes = [change for change in plan.changes if isinstance(change, FileChange)]
    if not changes:
        return ()
    with _locked(root), opened_root(root) as folder:
        for change in changes:
            with _present(folder, change.path) as file:
                _require_unchanged(file, change)
        for change in changes:
            _keep_original(root, change)
            with _present(folder, change.path) as file:
                _replace(_require_unchanged(file, change), change.path, change.after)
    return tuple(change.path for change in changes)


def undo_on_disk(root: Path) -> Undone:
    """Restore every file that a fix rewrote.

    A file that was edited after the fix is not restored; a finding names it.
    """
    if not (root / UNDO).is_dir():
        return Undone((), ())
    restored: list[str] = []
    findings: list[Finding] = []
    with _locked(root), opened_root(root) as folder:
        left = dict(_read_journal(root).steps)
        for path, step in sorted(left.items()):
            with _present(folder, path) as file:
                if file is None or file.digest not in (step.before, *step.ours):
                    findings.append(_edited_since(path, exists=file is not None))
                    continue
                if file.digest != step.before:
                    _replace(file, path, _read_original(root, step.before))
                    restored.append(path)
            del left[path]
            _write_journal(root, Journal(dict(left)))
        _drop_originals(root, {step.before for step in left.values()})
    return Undone(tuple(restored), tuple(findings))


def _keep_original(root: Path, change: FileChange) -> None:
    """Store the original and record it in the journal. Undoing two fixes restores the state before the first."""
    before, after = _sha256(change.before), _sha256(change.after)
    journal = _read_journal(root)
    earlier = journal.steps.get(change.path)
    if earlier is not None and before in earlier.ours:
        step = Step(earlier.before, (before, after))
    else:
        step = Step(before, (after,))
        with opened_folder(root / ORIGINALS) as originals:
            write_beside(before, change.before, 0o600, originals)
    _write_journal(root, replace(journal, steps={**journal.steps, change.path: step}))


def _require_unchanged(file: Present | None, change: FileChange) -> Present:
    if file is None or file.digest != _sha256(change.before):
        raise FixRefused("the file changed after its fix was planned", where=change.path, hint="pipeline fix")
    return file


@contextmanager
def _present(root: int, path: str) -> Iterator[Present | None]:
    """Read a file below `root`, a descriptor, and keep its folder open for `_replace`. Yields None if it is missing.

    Raises FixRefused for `root`, for paths outside `root` (by `..` or through a link), and for files that no fixer
    rewrites. The journal of a cloned project could name any path, such as git's settings.
    """
    name = PurePosixPath(path)
    outside = name.is_absolute() or ".." in name.parts or NEVER_FIXED.intersection(path.lower().split("/"))
    if not name.parts or outside:
        raise FixRefused("not a file of this folder", where=path)
    with ExitStack() as opened:
        try:
            folder, leaf = opened.enter_context(opened_parent(root, str(name)))
            with open_regular(leaf, dir_fd=folder) as file:
                present = Present(folder, leaf, _sha256(file.read()), _mode_of_copy(os.fstat(file.fileno())))
        except FileNotFoundError:
            present = None
        except (OSError, ValueError) as error:
            if getattr(error, "errno", 0) in LINK:
                raise FixRefused("not a file of this folder", where=path) from None
            raise FixRefused(f"the file cannot be read: {getattr(error, 'strerror', error)}", where=path) from None
        yield present


def _mode_of_copy(status: os.stat_result) -> int:
    """Return the mode for the file of this user that replaces a file.

    The bits setuid and setgid are never kept: another user's program with these bits would run as this user. The file
    of another user becomes this user's, so only this user may write to it.
    """
    mode = status.st_mode & 0o777
    return mode if status.st_uid == os.geteuid() else mode & ~(stat.S_IWGRP | stat.S_IWOTH)


def _replace(file: Present, path: str, data: bytes) -> None:
    """Replace a file atomically in the folder from which it was read, and keep its permissions. Raises FixRefused."""
    try:
        write_beside(file.name, data, file.mode, file.folder)
    except FileNotFoundError:
        raise FixRefused(
            "the folder was deleted before the file was written", where=path, hint="pipeline fix"
        ) from None


def _original(root: Path, digest: str) -> Path:
    return refuse_links(root / ORIGINALS / digest)


def _read_original(root: Path, digest: str) -> bytes:
    path = _original(root, digest)
    try:
        with open_regular(path) as file:
            data = file.read()
    except OSError as error:
        raise FixRefused(f"the original cannot be read: {error.strerror}", where=str(path)) from None
    if _sha256(data) != digest:
        raise FixRefused("the original was modified", where=str(path))
    return data


def _read_journal(root: Path) -> Journal:
    path = root / UNDO / "journal.json"
    require_own_file(path, root)
    try:
        journal = decode(Journal, read_json(path))
    except FileNotFoundError:
        return Journal()
    except (OSError, ValueError) as error:
        raise FixRefused(f"the record of earlier fixes cannot be read: {error}", where=str(path)) from None
    if not all(DIGEST.fullmatch(step.before) for step in journal.steps.values()):
        raise FixRefused("the record of earlier fixes contains an original whose name is not a digest", where=str(path))
    return journal


def _write_journal(root: Path, journal: Journal) -> None:
    with opened_folder(root / UNDO) as folder:
        write_beside("journal.json", dumps(journal), 0o600, folder)


def _drop_originals(root: Path, needed: set[str]) -> None:
    with opened_folder(root / ORIGINALS) as folder:
        for name in set(os.listdir(folder)) - needed:  # noqa: PTH208 - `folder` is a descriptor
            if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                os.unlink(name, dir_fd=folder)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Lock the folder until the end of the block, and exclude .halfstep from git. Raises Busy."""
    create_folder(root / UNDO)
    exclude_from_git(root / RECORDS_FOLDER)
    with open_lock(root / UNDO / "lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy("another fix is running in this folder", where=str(root)) from None
        yield


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _edited_since(path: str, *, exists: bool) -> Finding:
    what = "was edited after the fix" if exists else "no longer exists"
    message = f"the file {what}; its fix was not undone"
    hint = "the original is in .halfstep/undo/originals"
    return warning("edited-since-fix", message, path, hint)
