"""A project's tree in a few words, changing nothing: its digests, and where the bytes disagree with the manifest."""

from __future__ import annotations

import json
import os
from typing import Dict, Iterator, Optional

from remote.payload.tree.commit import known_manifest, look_over
from remote.payload.tree.state import Commit, Lying, Project, boot_id, is_as, read_commit, read_stats
from remote.protocol.blocks import UNPACKERS
from remote.protocol.layout import ProjectLayout
from remote.protocol.tree import Deviation, Manifest, TreeSurvey
from remote.protocol.values import Malformed


def survey_tree(workdir: str, project_key: str) -> TreeSurvey:
    """The tree of one project under `workdir` (absolute); files are read only where they look different."""
    project = Project(workdir, ProjectLayout(project_key))
    manifest = known_manifest(project)
    return survey_of(project, manifest, look_over(project, manifest, read_stats(project), boot_id()))


def survey_of(project: Project, manifest: Manifest, seen: Dict[str, Lying]) -> TreeSurvey:
    """The survey, from what was already seen."""
    try:
        commit, pending = read_commit(project), os.path.exists(project.at(project.layout.commit))
    except Malformed:
        commit, pending = None, True
    return TreeSurvey(
        exists=os.path.isdir(project.tree),
        source_digest=manifest.source_digest(),
        installed_digest=manifest.installed_digest(),
        files=len(manifest.rows),
        deviations=tuple(_deviations(manifest, seen, commit)),
        fixed={path: row for path, row in manifest.rows.items() if row.fixers or row.source != row.installed},
        owner=owner_of(project),
        pending=pending,
        staged=len(staged_digests(project)),
        codecs=tuple(sorted(UNPACKERS, reverse=True)),
    )


def owner_of(project: Project) -> Optional[str]:
    """Which laptop and folder the tree belongs to, where somebody wrote it down."""
    try:
        with open(project.at(project.layout.owner), "rb") as file:
            return str(json.loads(file.read().decode("utf-8", "surrogateescape"))["owner"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def staged_digests(project: Project) -> Dict[str, int]:
    """Contents that a cut sync left behind, by digest, with their sizes; they are not verified yet."""
    try:
        with os.scandir(project.staging) as entries:
            return {e.name: e.stat().st_size for e in entries if len(e.name) == 64 and e.is_file(follow_symlinks=False)}
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _deviations(manifest: Manifest, seen: Dict[str, Lying], commit: Optional[Commit]) -> Iterator[Deviation]:
    for path, row in manifest.rows.items():
        found = seen[path]
        if is_as(row, found):
            continue
        coming = commit.after.get(path) if commit else None
        going = commit is not None and path in commit.before and coming is None and found.kind == "missing"
        if going or (coming is not None and is_as(coming, found)):
            continue
        if found.kind == "missing":
            yield Deviation(path, "missing")
        elif found.damaged:
            yield Deviation(path, "damaged", found.digest)
        elif found.kind == ("link" if row.link else "file"):
            yield Deviation(path, "edited", found.digest)
        else:
            yield Deviation(path, "not-regular", found.digest)
