"""Apply a plan to a local folder, and undo it. Files are replaced atomically, and originals are kept."""

from __future__ import annotations

import fcntl
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from fixers.frame.change import FileChange, Plan
from fixers.frame.findings import warning
from remote.errors import Busy, FixRefused
from remote.project.digests import read_json
from remote.project.records_folder import RECORDS_FOLDER, create_folder, exclude_from_git, open_lock, refuse_links
from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import Finding
from remote.protocol.parts import write_beside
from remote.protocol.regular import open_regular
from remote.protocol.values import decode, dumps

UNDO = PurePosixPath(RECORDS_FOLDER, "undo")
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
    with _locked(root):
        _require_unchanged(root, changes)
        for change in changes:
            _keep_original(root, change)
            _require_unchanged(root, (change,))
            write_keeping_mode(_inside(root, change.path), change.after)
    return tuple(change.path for change in changes)


def undo_on_disk(root: Path) -> Undone:
    """Restore every file that a fix rewrote.

    A file that was edited after the fix is not restored; a finding names it.
    """
    if not (root / UNDO).is_dir():
        return Undone((), ())
    restored: list[str] = []
    findings: list[Finding] = []
    with _locked(root):
        left = dict(_read_journal(root).steps)
        for path, step in sorted(left.items()):
            present = _digest_on_disk(root, path)
            if present not in (step.before, *step.ours):
                findings.append(_edited_since(path, exists=present is not None))
                continue
            if present != step.before:
                write_keeping_mode(_inside(root, path), _read_original(root, step.before))
                restored.append(path)
            del left[path]
            _write_journal(root, Journal(dict(left)))
        _drop_originals(root, {step.before for step in left.values()})
    return Undone(tuple(restored), tuple(findings))


def write_keeping_mode(path: Path, data: bytes) -> None:
    """Replace the content of `path` atomically and keep its file mode."""
    mode = path.stat().st_mode & 0o7777 if path.exists() else 0o644
    write_beside(str(path), data, mode)


def _keep_original(root: Path, change: FileChange) -> None:
    """Store the original and record it in the journal. Undoing two fixes restores the state before the first."""
    before, after = _sha256(change.before), _sha256(change.after)
    journal = _read_journal(root)
    earlier = journal.steps.get(change.path)
    if earlier is not None and before in earlier.ours:
        step = Step(earlier.before, (before, after))
    else:
        step = Step(before, (after,))
        create_folder(_original(root, before).parent)
        write_beside(str(_original(root, before)), change.before, 0o600)
    _write_journal(root, replace(journal, steps={**journal.steps, change.path: step}))


def _require_unchanged(root: Path, changes: Sequence[FileChange]) -> None:
    for change in changes:
        if _digest_on_disk(root, change.path) != _sha256(change.before):
            raise FixRefused("the file changed after its fix was planned", where=change.path, hint="pipeline fix")


def _digest_on_disk(root: Path, path: str) -> str | None:
    try:
        with open_regular(_inside(root, path)) as file:
            return _sha256(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FixRefused(f"the file cannot be read: {getattr(error, 'strerror', error)}", where=path) from None


def _inside(root: Path, path: str) -> Path:
    """Return the file under `root`.

    Raises FixRefused for `root`, for paths outside `root` (by `..` or through a link), and for files that no fixer
    rewrites. The journal of a cloned project could name any path, such as git's settings.
    """
    name = PurePosixPath(path)
    file = root / name
    outside = (
        not name.parts or name.is_absolute() or ".." in name.parts or NEVER_FIXED.intersection(path.lower().split("/"))
    )
    if outside or file.is_symlink() or file.resolve() != root.resolve() / name:
        raise FixRefused("not a file of this folder", where=path)
    return file


def _original(root: Path, digest: str) -> Path:
    return refuse_links(root / UNDO / "originals" / digest)


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
    write_beside(str(root / UNDO / "journal.json"), dumps(journal), 0o600)


def _drop_originals(root: Path, needed: set[str]) -> None:
    folder = refuse_links(root / UNDO / "originals")
    for original in folder.iterdir() if folder.is_dir() else ():
        if original.name not in needed and (original.is_symlink() or not original.is_dir()):
            original.unlink()


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Lock the folder until the end of the block, and exclude .halfstep from git. Raises Busy."""
    folder = refuse_links(root / UNDO)
    create_folder(folder)
    exclude_from_git(root / RECORDS_FOLDER)
    with open_lock(folder / "lock") as lock:
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
