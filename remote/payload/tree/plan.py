"""Plan a sync: the commit that makes the tree match the laptop's index, without the paths that were edited."""

from __future__ import annotations

import os
import time
from typing import Dict, List, Optional, Set, Tuple

from remote.payload.processes.identity import boot_id
from remote.payload.request.refusal import Refusal
from remote.payload.tree.paths import Folders, ParentFolders
from remote.payload.tree.state import MISSING, Commit, FileState, Project, matches, read_state, read_stats
from remote.payload.tree.stream import Index, IndexEntry
from remote.protocol.tree import Manifest, Row, judge_deletion


def refuse_mass_delete(manifest: Manifest, index: Index, data: str) -> None:
    """Raise Refusal if the index deletes most of the files on the host. `data` is described in `judge_deletion`."""
    finding = judge_deletion(manifest.rows, index.deletes, data)
    if finding is not None:
        raise Refusal(finding.check, finding.message, hint=finding.hint, exit_code=finding.exit_code)


def plan_commit(project: Project, manifest: Manifest, index: Index, force: bool) -> Tuple[Commit, Set[str]]:
    """Return the commit for an index, and the paths that the commit skips because they were edited on the host.

    With `force`, no path is skipped. The commit first moves the edited files into a folder under undo/.
    """
    plan = _SyncPlan(project, manifest)
    deletes = {path for path in index.deletes if path in manifest.rows}
    for path in deletes:
        plan.delete(path)
    parents = ParentFolders(Folders(project.tree), deletes - plan.edited)
    for entry in index.entries:
        plan.place(entry, parents, deletes)
    if force and plan.edited:
        return plan.commit(keep_in=f"{project.layout.undo}/edited-{time.time_ns()}"), set()
    return plan.commit(), plan.edited


class _SyncPlan:
    """A commit that is being built. `edited` are the paths that match neither the manifest nor the index."""

    def __init__(self, project: Project, manifest: Manifest) -> None:
        self._project, self._manifest = project, manifest
        self._stats, self._boot = read_stats(project), boot_id()
        self._before: Dict[str, Row] = {}
        self._after: Dict[str, Row] = {}
        self._puts: List[str] = []
        self.edited: Set[str] = set()

    def delete(self, path: str) -> None:
        row = self._manifest.rows[path]
        if not _may_replace(self._state(path), row):
            self.edited.add(path)
        self._before[path] = row

    def place(self, entry: IndexEntry, parents: ParentFolders, deletes: Set[str]) -> None:
        path, old = entry.path, self._manifest.rows.get(entry.path)
        row = _row_of(entry, old)
        if entry.put:
            current = self._state(path) if parents.exists_above(path) else MISSING
            folder = os.path.join(self._project.tree, path)
            if not _may_replace(current, row, old) and not _will_be_empty(folder, path, deletes):
                self.edited.add(path)
            self._puts.append(path)
        blocker = parents.blocked_by(path)
        if blocker:
            self.edited |= {path, blocker}
        if old is not None:
            self._before[path] = old
        self._after[path] = row

    def commit(self, keep_in: str = "") -> Commit:
        """Return the commit without the edited paths.

        If `keep_in` is given, the edited paths are included: the commit first moves them into that folder.
        """
        if keep_in:
            return Commit(self._before, self._after, tuple(self._puts), tuple(sorted(self.edited)), keep_in)
        return Commit(
            {path: row for path, row in self._before.items() if path not in self.edited},
            {path: row for path, row in self._after.items() if path not in self.edited},
            tuple(path for path in self._puts if path not in self.edited),
        )

    def _state(self, path: str) -> FileState:
        return read_state(self._project.tree, path, self._stats, self._boot)


def _may_replace(current: FileState, *rows: Optional[Row]) -> bool:
    """Return True if the file contains no edit of a user: it is missing, damaged, or matches one of the rows."""
    return (
        current.kind == "missing" or current.damaged or any(row is not None and matches(row, current) for row in rows)
    )


def _row_of(entry: IndexEntry, old: Optional[Row]) -> Row:
    if entry.put or old is None:
        return Row(entry.digest, entry.digest, entry.mode, entry.size, entry.link)
    return Row(old.source, old.installed, entry.mode, old.size, old.link, old.fixers)


def _will_be_empty(folder: str, path: str, deletes: Set[str]) -> bool:
    """Return True if `folder` is a folder in the place of a file, and the sync deletes every file in it."""
    if os.path.islink(folder) or not os.path.isdir(folder):
        return False
    for parent, _, names in os.walk(folder):
        inside = os.path.relpath(parent, folder)
        prefix = path if inside == "." else f"{path}/{inside}"
        if any(f"{prefix}/{name}" not in deletes for name in names):
            return False
    return True
