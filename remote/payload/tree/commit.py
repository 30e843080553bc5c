"""Commits: atomic changes of the tree. A journal is written first, the manifest last.

`recover` completes an interrupted commit.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from remote.payload.files.atomic import PART
from remote.payload.processes.identity import boot_id
from remote.payload.request.refusal import Refusal
from remote.payload.tree.paths import Folders
from remote.payload.tree.state import (
    Commit,
    FileStamp,
    FileState,
    Project,
    Stats,
    digest_of_file,
    matches,
    read_commit,
    read_manifest,
    read_state,
    read_stats,
    stamp_of,
    write_commit,
    write_manifest,
    write_stats,
)
from remote.protocol.exits import ExitCode
from remote.protocol.tree import UPGRADE, Manifest, NewerManifest, Row
from remote.protocol.values import Malformed

Stamped = Tuple[FileStamp, str]
"""A file's stamp and its digest."""


def known_manifest(project: Project) -> Manifest:
    """Return the manifest, or an empty manifest if the file is missing or damaged.

    Raises Refusal if a newer version of halfstep wrote the file.
    """
    try:
        return read_manifest(project) or Manifest({})
    except NewerManifest as error:
        raise Refusal(
            "newer",
            f"{project.layout.key}: {error}",
            where=project.at(project.layout.manifest),
            hint=UPGRADE,
            exit_code=ExitCode.USAGE,
        ) from None
    except Malformed:
        return Manifest({})


def recover(project: Project) -> bool:
    """Complete an interrupted commit, or remove its damaged journal. Return True if there was an interrupted commit."""
    try:
        commit = read_commit(project)
    except Malformed:
        os.unlink(project.at(project.layout.commit))
        return True
    if commit is None:
        return False
    _finish(project, commit)
    return True


def commit_change(project: Project, commit: Commit, staged: Mapping[str, int]) -> Tuple[Manifest, Dict[str, FileState]]:
    """Apply the commit. Return the new manifest, and the state of each path in it.

    `staged` maps the digest of each staged content to its mode, from `check_staged`.
    """
    if commit.before or commit.after:
        write_commit(project, commit)
    return _finish(project, commit, staged)


def _finish(
    project: Project, commit: Commit, just_staged: Optional[Mapping[str, int]] = None
) -> Tuple[Manifest, Dict[str, FileState]]:
    stats, boot = read_stats(project), boot_id()
    folders = Folders(project.tree)
    current = _CurrentPaths(project, commit, stats, boot)
    _remove(project, commit, current, folders)
    # If a commit was interrupted (`just_staged` is None), files may have been edited since then: edited files are kept.
    # A new commit was planned for the current files.
    edited = set() if just_staged is not None else {path for path in commit.puts if current.is_edited(path)}
    placed = dict(_place(project, commit, edited, folders, just_staged or {}))
    for path, row in commit.after.items():
        if path not in placed and not row.link and current.state(path).kind == "file":
            os.chmod(folders.file(path), row.mode)
    manifest = commit.applied_to(known_manifest(project))
    _wait_for_clock(project, placed)
    trusted = {**(stats.rows if stats.boot == boot else {}), **placed}
    states = read_states(project, manifest, Stats(boot, trusted), boot)
    write_stats(project, Stats(boot, dict(_settled(states, trusted))))
    if commit.before or commit.after:
        write_manifest(project, manifest)
        _unlink(project.at(project.layout.commit))
    shutil.rmtree(project.staging, ignore_errors=True)
    return manifest, states


def _remove(project: Project, commit: Commit, current: _CurrentPaths, folders: Folders) -> None:
    """Move away the paths that a forced sync overwrites, and delete the paths that the commit deletes."""
    for path in commit.keep:
        if current.is_edited(path):
            _keep_edited(project, commit, path)
    for path in commit.deletes:
        if not current.is_edited(path):
            _unlink(folders.file(path))
    folders.prune(commit.deletes)


def read_states(project: Project, manifest: Manifest, stats: Stats, boot: str) -> Dict[str, FileState]:
    """Return the state of every path of the manifest."""
    return {path: read_state(project.tree, path, stats, boot) for path in manifest.rows}


def _settled(states: Dict[str, FileState], trusted: Dict[str, Stamped]) -> Iterator[Tuple[str, Stamped]]:
    """Yield (path, (stamp, digest)) of each file, except files that were edited within the last second.

    Another edit within that second might leave the same stamp.
    """
    before = time.time_ns() - 10**9
    for path, state in states.items():
        if state.stamp is not None and (state.stamp[2] < before or trusted.get(path) == (state.stamp, state.digest)):
            yield path, (state.stamp, state.digest)


class _CurrentPaths:
    """The current state of a commit's paths on the disk."""

    def __init__(self, project: Project, commit: Commit, stats: Stats, boot: str) -> None:
        self._project, self._commit, self._stats, self._boot = project, commit, stats, boot

    def state(self, path: str) -> FileState:
        return read_state(self._project.tree, path, self._stats, self._boot)

    def is_edited(self, path: str) -> bool:
        """Return True if the path matches neither its state before the commit nor its state after it."""
        current = self.state(path)
        if current.kind == "missing" or current.damaged:
            return False
        rows = (self._commit.before.get(path), self._commit.after.get(path))
        return not any(row is not None and matches(row, current) for row in rows)


def _place(
    project: Project, commit: Commit, edited: Set[str], folders: Folders, modes: Mapping[str, int]
) -> Iterator[Tuple[str, Stamped]]:
    users: Dict[str, int] = {}
    for path in commit.puts:
        digest = commit.after[path].installed
        users[digest] = users.get(digest, 0) + 1
    for path in commit.puts:
        row = commit.after[path]
        users[row.installed] -= 1
        if path in edited:
            continue
        try:
            folders.make_parents(path)
        except Refusal:
            continue
        staged = _staged(project, row, modes, last=users[row.installed] == 0)
        if staged is None:
            continue
        target = folders.file(path)
        os.replace(staged, target)
        if not row.link:
            yield path, (stamp_of(os.lstat(target)), row.installed)


def _staged(project: Project, row: Row, modes: Mapping[str, int], *, last: bool) -> Optional[str]:
    """Return the path of a staged file that has its final mode and can be renamed.

    Return None if the file was moved to its place before the commit was interrupted.
    """
    whole = f"{project.staging}/{row.installed}"
    spare = f"{project.staging}/{PART}{row.installed}"
    if row.link:
        os.makedirs(project.staging, exist_ok=True)
        _unlink(spare)
        os.symlink(row.link, spare)
        return spare
    if last and modes.get(row.installed) == row.mode:
        return whole
    if not os.path.exists(whole):
        return None
    if not last:
        shutil.copyfile(whole, spare)
        whole = spare
    os.chmod(whole, row.mode)
    return whole


def _keep_edited(project: Project, commit: Commit, path: str) -> None:
    kept = os.path.join(project.workdir, commit.keep_in, path)
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    os.rename(os.path.join(project.tree, path), kept)


def _wait_for_clock(project: Project, placed: Dict[str, Stamped]) -> None:
    """Wait until the kernel's clock has ticked, so that a later write changes the ctime of every file in `placed`."""
    newest = max((stamp[2] for stamp, _ in placed.values()), default=0)
    probe = project.at(project.layout.stats) + ".clock"
    while newest:
        with open(probe, "wb"):
            pass
        if os.stat(probe).st_ctime_ns > newest or os.stat(probe).st_ctime_ns < newest - 10**9:
            break
        os.unlink(probe)
    if newest:
        os.unlink(probe)


class CheckedStaging(NamedTuple):
    """The modes of intact staged contents by digest, and the digests of damaged contents."""

    modes: Dict[str, int]
    torn: List[str]


def check_staged(project: Project, stamps: Mapping[str, FileStamp]) -> CheckedStaging:
    """Check that staged contents have not changed since they arrived. Remove damaged contents."""
    checked = CheckedStaging({}, [])
    for digest, stamp in stamps.items():
        path = f"{project.staging}/{digest}"
        status = os.lstat(path)
        if stamp_of(status) == stamp or digest_of_file(path) == digest:
            checked.modes[digest] = stat.S_IMODE(status.st_mode)
        else:
            os.unlink(path)
            checked.torn.append(digest)
    return checked


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
