"""Survey a project's tree: its digests, and where its bytes deviate from the manifest. Read-only."""

from __future__ import annotations

import json
import os
from typing import Dict, Iterator, Optional

from remote.payload.processes.identity import boot_id
from remote.payload.tree.commit import known_manifest, read_states
from remote.payload.tree.state import Commit, FileState, Project, matches, read_commit, read_stats
from remote.protocol.blocks import UNPACKERS
from remote.protocol.layout import ProjectLayout
from remote.protocol.tree import Deviation, Manifest, Row, TreeSurvey
from remote.protocol.values import Malformed


def survey_tree(workdir: str, project_key: str) -> TreeSurvey:
    """Survey the tree of one project under `workdir` (absolute). Only files whose stamp has changed are read."""
    project = Project(workdir, ProjectLayout(project_key))
    manifest = known_manifest(project)
    return survey_of(project, manifest, read_states(project, manifest, read_stats(project), boot_id()))


def survey_of(project: Project, manifest: Manifest, states: Dict[str, FileState]) -> TreeSurvey:
    """Return the survey for file states that were already read."""
    try:
        commit, pending = read_commit(project), os.path.exists(project.at(project.layout.commit))
    except Malformed:
        commit, pending = None, True
    return TreeSurvey(
        exists=os.path.isdir(project.tree),
        source_digest=manifest.source_digest(),
        installed_digest=manifest.installed_digest(),
        files=len(manifest.rows),
        deviations=tuple(_deviations(manifest, states, commit)),
        fixed={path: row for path, row in manifest.rows.items() if row.fixers or row.source != row.installed},
        owner=owner_of(project),
        pending=pending,
        staged=len(staged_digests(project)),
        codecs=tuple(sorted(UNPACKERS, reverse=True)),
        free_bytes=free_bytes(project.workdir),
    )


def free_bytes(folder: str) -> Optional[int]:
    """Return the free bytes of the file system of `folder`, or None if they cannot be read.

    The folder need not exist.
    """
    while not os.path.exists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return max(0, status.f_bavail) * status.f_frsize


def owner_of(project: Project) -> Optional[str]:
    """Return the laptop and the folder that the tree belongs to, or None if they are not recorded."""
    try:
        with open(project.at(project.layout.owner), "rb") as file:
            return str(json.loads(file.read().decode("utf-8", "surrogateescape"))["owner"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def staged_digests(project: Project) -> Dict[str, int]:
    """Return the digests and sizes of staged contents that an interrupted sync left.

    The contents are not verified yet.
    """
    try:
        with os.scandir(project.staging) as entries:
            return {e.name: e.stat().st_size for e in entries if len(e.name) == 64 and e.is_file(follow_symlinks=False)}
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _deviations(manifest: Manifest, states: Dict[str, FileState], commit: Optional[Commit]) -> Iterator[Deviation]:
    for path, row in manifest.rows.items():
        current = states[path]
        if not matches(row, current) and not _is_committed(path, current, commit):
            yield Deviation(path, _kind(row, current), current.digest)


def _kind(row: Row, current: FileState) -> str:
    if current.kind == "missing":
        return "missing"
    if current.damaged:
        return "damaged"
    return "edited" if current.kind == ("link" if row.link else "file") else "not-regular"


def _is_committed(path: str, current: FileState, commit: Optional[Commit]) -> bool:
    """Return True if an interrupted commit has already changed the path."""
    if commit is None:
        return False
    row = commit.after.get(path)
    return matches(row, current) if row is not None else path in commit.before and current.kind == "missing"
