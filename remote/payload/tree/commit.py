"""A change of the tree, done as one: written down first, finished by whoever finds it, the manifest last."""

from __future__ import annotations

import os
import shutil
import stat
import time
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from remote.payload.files.atomic import PART
from remote.payload.request.refusal import Refusal
from remote.payload.tree.paths import Folders
from remote.payload.tree.state import (
    Commit,
    Look,
    Lying,
    Project,
    Stats,
    boot_id,
    digest_of_file,
    is_as,
    look_at,
    lying,
    read_commit,
    read_manifest,
    read_stats,
    write_commit,
    write_manifest,
    write_stats,
)
from remote.protocol.exits import ExitCode
from remote.protocol.tree import Manifest, NewerManifest, Row
from remote.protocol.values import Malformed


def known_manifest(project: Project) -> Manifest:
    """The manifest; an empty one where there is none or it is damaged. Raises Refusal where it is newer than we are."""
    try:
        return read_manifest(project) or Manifest({})
    except NewerManifest as error:
        raise Refusal(
            "newer",
            f"{project.layout.key}: {error}",
            where=project.at(project.layout.manifest),
            hint="upgrade halfstep here",
            exit_code=ExitCode.USAGE,
        ) from None
    except Malformed:
        return Manifest({})


def recover(project: Project) -> bool:
    """No change of the tree is half done. Says whether there was one."""
    try:
        commit = read_commit(project)
    except Malformed:
        os.unlink(project.at(project.layout.commit))
        return True
    if commit is None:
        return False
    _finish(project, commit)
    return True


def commit_change(project: Project, commit: Commit, staged: Mapping[str, int]) -> Tuple[Manifest, Dict[str, Lying]]:
    """The change is made and the manifest says so; also what lies at every path of it now.

    `staged`: the modes of the contents that were just seen in staging.
    """
    if commit.before or commit.after:
        write_commit(project, commit)
    return _finish(project, commit, staged)


def _finish(
    project: Project, commit: Commit, just_staged: Optional[Mapping[str, int]] = None
) -> Tuple[Manifest, Dict[str, Lying]]:
    stats, boot = read_stats(project), boot_id()
    folders = Folders(project.tree)
    left = _Left(project, commit, stats, boot)
    for path in commit.keep:
        if left.may_not_touch(path):
            _set_aside(project, commit, path)
    for path in commit.deletes:
        if not left.may_not_touch(path):
            _unlink(folders.file(path))
    folders.prune(commit.deletes)
    # A commit that was just planned was planned against what lies there; one that was found may be old.
    taken = set() if just_staged is not None else {path for path in commit.puts if left.may_not_touch(path)}
    placed = dict(_place(project, commit, taken, folders, just_staged or {}))
    for path, row in commit.after.items():
        if path not in placed and not row.link and left.now(path).kind == "file":
            os.chmod(folders.file(path), row.mode)
    manifest = commit.applied_to(known_manifest(project))
    _wait_for_clock(project, placed)
    trusted = {**(stats.rows if stats.boot == boot else {}), **placed}
    seen = look_over(project, manifest, Stats(boot, trusted), boot)
    write_stats(project, Stats(boot, dict(_settled(seen, trusted))))
    if commit.before or commit.after:
        write_manifest(project, manifest)
        _unlink(project.at(project.layout.commit))
    shutil.rmtree(project.staging, ignore_errors=True)
    return manifest, seen


def look_over(project: Project, manifest: Manifest, stats: Stats, boot: str) -> Dict[str, Lying]:
    """What lies at every path of the manifest."""
    return {path: lying(project.tree, path, stats, boot) for path in manifest.rows}


def _settled(seen: Dict[str, Lying], trusted: Dict[str, Tuple[Look, str]]) -> Iterator[Tuple[str, Tuple[Look, str]]]:
    """What may be remembered: a file that changed within the last second might change again and look the same."""
    before = time.time_ns() - 10**9
    for path, found in seen.items():
        if found.look is not None and (found.look[2] < before or trusted.get(path) == (found.look, found.digest)):
            yield path, (found.look, found.digest)


class _Left:
    """What was at the paths of a commit when we came to them."""

    def __init__(self, project: Project, commit: Commit, stats: Stats, boot: str) -> None:
        self._project, self._commit, self._stats, self._boot = project, commit, stats, boot

    def now(self, path: str) -> Lying:
        return lying(self._project.tree, path, self._stats, self._boot)

    def may_not_touch(self, path: str) -> bool:
        """Something lies there that is neither what was before nor what comes after."""
        found = self.now(path)
        if found.kind == "missing" or found.damaged:
            return False
        rows = (self._commit.before.get(path), self._commit.after.get(path))
        return not any(row is not None and is_as(row, found) for row in rows)


def _place(
    project: Project, commit: Commit, taken: Set[str], folders: Folders, modes: Mapping[str, int]
) -> Iterator[Tuple[str, Tuple[Look, str]]]:
    users: Dict[str, int] = {}
    for path in commit.puts:
        there = commit.after[path].installed
        users[there] = users.get(there, 0) + 1
    for path in commit.puts:
        row = commit.after[path]
        users[row.installed] -= 1
        if path in taken:
            continue
        try:
            folders.make_parents(path)
        except Refusal:
            continue
        staged = _staged(project, row, modes, last=users[row.installed] == 0)
        if staged is None:
            continue
        place = folders.file(path)
        os.replace(staged, place)
        if not row.link:
            yield path, (look_at(os.lstat(place)), row.installed)


def _staged(project: Project, row: Row, modes: Mapping[str, int], *, last: bool) -> Optional[str]:
    """A file in staging that may be moved to its place, with its mode; None where it was moved before a cut."""
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


def _set_aside(project: Project, commit: Commit, path: str) -> None:
    kept = os.path.join(project.workdir, commit.keep_in, path)
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    os.rename(os.path.join(project.tree, path), kept)


def _wait_for_clock(project: Project, placed: Dict[str, Tuple[Look, str]]) -> None:
    """A write from now on gives a file another ctime than the ones in `placed`: the kernel's clock has ticked since."""
    newest = max((look[2] for look, _ in placed.values()), default=0)
    probe = project.at(project.layout.stats) + ".clock"
    while newest:
        with open(probe, "wb"):
            pass
        if os.stat(probe).st_ctime_ns > newest or os.stat(probe).st_ctime_ns < newest - 10**9:
            break
        os.unlink(probe)
    if newest:
        os.unlink(probe)


class Sound(NamedTuple):
    """Contents in staging that are what they were when they came, with their modes, and those that are not."""

    modes: Dict[str, int]
    torn: List[str]


def look_again(project: Project, looks: Mapping[str, Look]) -> Sound:
    """What became of staged contents since they came; torn ones are removed."""
    sound = Sound({}, [])
    for digest, look in looks.items():
        path = f"{project.staging}/{digest}"
        status = os.lstat(path)
        if look_at(status) == look or digest_of_file(path) == digest:
            sound.modes[digest] = stat.S_IMODE(status.st_mode)
        else:
            os.unlink(path)
            sound.torn.append(digest)
    return sound


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
