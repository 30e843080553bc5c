"""The undo journal of setup fixers, which keeps the original of each file before the file is replaced.

The file undo/<fixer>/<digest of the path>.json records the replacement; the original is in the `.bytes` file of the
same name. Later replacements do not change the original, so undo restores the file as it was before the fixer first
replaced it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from typing import List, Optional, Tuple

from remote.payload.files.atomic import sync_folder, write_atomic
from remote.payload.request.refusal import Refusal
from remote.payload.tree.rewrite import ORIGINALS
from remote.payload.tree.state import Project, digest_of_file, read_manifest, write_manifest
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.tree import Manifest, Row
from remote.protocol.values import decode, dumps


@dataclass(frozen=True)
class Replaced:
    """A replaced file. `path` is absolute; `before` and `after` are digests, and `before` is "" if the file was new."""

    path: str
    before: str
    after: str
    mode: int = 0o644


def replace_kept(project: Project, fixer: str, path: str, data: bytes, expected: str) -> None:
    """Write `data` to `path` and keep the original for undo.

    `expected` is the digest for which the plan was made ("" for a new file). Raises Refusal if the file differs from
    it.
    """
    before = _digest(path)
    after = hashlib.sha256(data).hexdigest()
    if before == after:
        _record_in_manifest(project, fixer, path, after)
        return
    if before != expected:
        raise Refusal(
            "changed",
            f"{path} changed after the plan was made; nothing was written",
            where=path,
            hint="run the command again",
            exit_code=ExitCode.FIXER,
        )
    mode = os.stat(path).st_mode & 0o777 if before else 0o644
    entry = _entry(project, fixer, path)
    known = _read_entry(entry)
    if known is None or before not in (known.before, known.after):
        if before:
            _keep(project, entry, path, before)
        known = Replaced(path, before, after, mode)
    write_atomic(entry + ".json", dumps(dataclasses.replace(known, after=after)))
    write_atomic(path, data, mode)
    _record_in_manifest(project, fixer, path, after)


def _keep(project: Project, entry: str, path: str, before: str) -> None:
    """Keep the original for this fixer's undo. A file that the laptop sent is also kept for `tree.undo`."""
    with open(path, "rb") as file:
        data = file.read()
    write_atomic(entry + ".bytes", data, 0o600)
    row, _ = _row_of(project, path)
    if row is not None and row.source == before:
        write_atomic(os.path.join(project.at(project.layout.undo), ORIGINALS, before), data)


def digest_after_fix(project: Project, fixer: str, path: str) -> str:
    """Return the digest of the file after the fixer replaced it, or "" if the fixer never replaced it."""
    known = _read_entry(_entry(project, fixer, path))
    return known.after if known else ""


def restore_replaced(project: Project, fixer: str) -> List[str]:
    """Restore every file that the fixer replaced, and return their paths.

    Raises Refusal if a file was edited after the fixer replaced it.
    """
    restored: List[str] = []
    for entry in _entries(project, fixer):
        known = _read_entry(entry)
        if known is None:
            continue
        restored += _restore_one(project, fixer, entry, known)
    return restored


def _restore_one(project: Project, fixer: str, entry: str, known: Replaced) -> List[str]:
    """Restore one file. Return its path in a list, which is empty if a later sync has replaced the fixer's file."""
    now = _digest(known.path)
    if now not in (known.after, known.before) and not _is_synced(project, known.path, now):
        raise Refusal(
            "edited",
            f"{known.path} was changed after the {fixer} fixer wrote it; nothing was changed",
            where=known.path,
            exit_code=ExitCode.FIXER,
        )
    if now == known.after and known.before:
        with open(entry + ".bytes", "rb") as file:
            write_atomic(known.path, file.read(), known.mode)
    elif now == known.after and not known.before:
        os.unlink(known.path)
        sync_folder(os.path.dirname(known.path))
    if now in (known.after, known.before):
        _record_in_manifest(project, fixer, known.path, known.before, undone=True)
    for name in (entry + ".json", entry + ".bytes"):
        if os.path.exists(name):
            os.unlink(name)
    return [known.path] if now in (known.after, known.before) else []


def _is_synced(project: Project, path: str, digest: str) -> bool:
    """Return True if a later sync has written this content, so that there is nothing to undo."""
    row, _ = _row_of(project, path)
    return row is not None and row.installed == digest


def _record_in_manifest(project: Project, fixer: str, path: str, digest: str, *, undone: bool = False) -> None:
    """Record the new digest of `path` in the manifest, so that it does not count as an edit on the host."""
    row, name = _row_of(project, path)
    manifest = read_manifest(project)
    if manifest is None or row is None or (row.installed == digest and not undone):
        return
    fixers = {**row.fixers, fixer: 1} if not undone else {n: v for n, v in row.fixers.items() if n != fixer}
    changed = dataclasses.replace(row, installed=digest, fixers=fixers)
    if changed != row:
        write_manifest(project, Manifest({**manifest.rows, name: changed}, manifest.version))


def _row_of(project: Project, path: str) -> Tuple[Optional[Row], str]:
    """Return the manifest's row for `path` and its name in the tree.

    The row is None if the path is outside the tree or was never sent.
    """
    tree = os.path.realpath(project.tree)
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    name = os.path.relpath(real, tree)
    manifest = read_manifest(project) if real.startswith(tree + os.sep) else None
    return (manifest.rows.get(name) if manifest else None), name


def _digest(path: str) -> str:
    try:
        return digest_of_file(os.path.realpath(path))
    except FileNotFoundError:
        return ""


def _folder(project: Project, fixer: str) -> str:
    return project.at(f"{project.layout.undo}/{fixer}")


def _entry(project: Project, fixer: str, path: str) -> str:
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
    return os.path.join(_folder(project, fixer), name)


def _entries(project: Project, fixer: str) -> List[str]:
    folder = _folder(project, fixer)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [os.path.join(folder, name[: -len(".json")]) for name in names if name.endswith(".json")]


def _read_entry(entry: str) -> Optional[Replaced]:
    try:
        with open(entry + ".json", "rb") as file:
            return decode(Replaced, json.load(file))
    except (FileNotFoundError, ValueError):
        return None
