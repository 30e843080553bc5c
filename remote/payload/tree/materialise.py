"""A copy of the project to work in: a later sync never disturbs what runs there."""

from __future__ import annotations

import os
import shutil
import stat
from typing import Dict, Optional, Set

from remote.payload.tree.commit import known_manifest
from remote.payload.tree.lock import held_project
from remote.payload.tree.shared import SharedFiles
from remote.payload.tree.state import Project
from remote.protocol.layout import ProjectLayout
from remote.protocol.tree import LARGE_BYTES, Manifest

WAIT_S = 60.0
NOT_LINKED = {"__pycache__"}


def materialise(workdir: str, project_key: str, target: str, shared: Optional[SharedFiles] = None) -> None:
    """`target` holds the project's files as they lie on the host; what else lies in the tree (venv/, data/) is linked.

    It appears whole, by one rename, and no sync changes the tree meanwhile. `shared` may stand in for copies of large
    files. Raises Refusal, busy.
    """
    project = Project(workdir, ProjectLayout(project_key))
    part = f"{target}.part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    with held_project(project, f"copying the tree to {target}", wait_s=WAIT_S):
        manifest = known_manifest(project)
        _copy_tracked(project.tree, manifest, part, shared)
        link_untracked(project.tree, manifest, part)
    os.rename(part, target)


def _copy_tracked(tree: str, manifest: Manifest, target: str, shared: Optional[SharedFiles]) -> None:
    made: Set[str] = set()
    for name, row in manifest.rows.items():
        folder = os.path.join(target, os.path.dirname(name))
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        source, copy = os.path.join(tree, name), os.path.join(target, name)
        if shared is None or row.size < LARGE_BYTES or not shared.link(source, copy):
            copy_one(source, copy)
    if shared is not None:
        shared.sweep()


def copy_one(source: str, copy: str) -> None:
    """A file with its mode, or a link as a link; nothing where the source is gone or neither."""
    try:
        mode = os.lstat(source).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), copy)
    elif stat.S_ISREG(mode):
        shutil.copyfile(source, copy)
        os.chmod(copy, stat.S_IMODE(mode))


def link_untracked(tree: str, manifest: Manifest, target: str) -> None:
    """What lies in the tree and not in the manifest is linked at its place in `target`, whole folders by one link."""
    tracked: Dict[str, Set[str]] = {"": set()}
    for name in manifest.rows:
        folder, _, last = name.rpartition("/")
        while last not in tracked.setdefault(folder, set()):
            tracked[folder].add(last)
            folder, _, last = folder.rpartition("/")
            if not last:
                break
    for folder, names in tracked.items():
        here = os.path.join(tree, folder)
        if not os.path.isdir(here) or os.path.islink(here):
            continue
        for name in os.listdir(here):
            place = os.path.join(target, folder, name)
            if name not in names and name not in NOT_LINKED and not os.path.lexists(place):
                os.makedirs(os.path.dirname(place), exist_ok=True)
                os.symlink(os.path.join(here, name), place)
