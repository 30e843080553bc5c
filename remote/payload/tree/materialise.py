"""Copy the project's tree into a run's folder, so that a later sync does not change the files of that run."""

from __future__ import annotations

import os
import shutil
import stat
from typing import Callable, Dict, Optional, Set

from remote.payload.tree.commit import known_manifest
from remote.payload.tree.lock import locked_project
from remote.payload.tree.shared import SharedFiles
from remote.payload.tree.state import Project
from remote.protocol.layout import ProjectLayout
from remote.protocol.tree import LARGE_BYTES, Manifest

WAIT_S = 60.0
NOT_LINKED = {"__pycache__"}


def materialise(
    workdir: str,
    project_key: str,
    target: str,
    shared: Optional[SharedFiles] = None,
    *,
    before_rename: Callable[[str], None] = lambda part: None,
) -> None:
    """Copy the project's files to `target`, and link everything else in the tree (venv/, data/).

    `target` appears atomically, and no sync changes the tree while it is copied. If `shared` is given, large files
    become hard links to shared copies, where that is safe. `before_rename` is called with the folder of the complete
    copy before it is renamed to `target`. Raises Refusal `busy` if another process keeps the project's
    lock.
    """
    project = Project(workdir, ProjectLayout(project_key))
    part = f"{target}.part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    with locked_project(project, f"copying the tree to {target}", wait_s=WAIT_S):
        manifest = known_manifest(project)
        _copy_tracked(project.tree, manifest, part, shared)
        link_untracked(project.tree, manifest, part)
    before_rename(part)
    os.rename(part, target)


def _copy_tracked(tree: str, manifest: Manifest, target: str, shared: Optional[SharedFiles]) -> None:
    created: Set[str] = set()
    for name, row in manifest.rows.items():
        folder = os.path.join(target, os.path.dirname(name))
        if folder not in created:
            os.makedirs(folder, exist_ok=True)
            created.add(folder)
        source, copy = os.path.join(tree, name), os.path.join(target, name)
        if shared is None or row.size < LARGE_BYTES or not shared.link(source, copy):
            copy_one(source, copy)
    if shared is not None:
        shared.sweep()


def copy_one(source: str, copy: str) -> None:
    """Copy a file with its mode, or a symlink as a symlink. Ignore missing files and other kinds of files."""
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
    """Link every path of the tree that is not in the manifest into `target`.

    A whole folder is linked if the manifest has no file in it.
    """
    for folder, names in _tracked_names(manifest).items():
        source = os.path.join(tree, folder)
        if not os.path.isdir(source) or os.path.islink(source):
            continue
        for name in os.listdir(source):
            target_path = os.path.join(target, folder, name)
            if name not in names and name not in NOT_LINKED and not os.path.lexists(target_path):
                os.makedirs(os.path.dirname(target_path), exist_ok=True)
                os.symlink(os.path.join(source, name), target_path)


def _tracked_names(manifest: Manifest) -> Dict[str, Set[str]]:
    """Return, for each folder, the names of its files in the manifest and of its subfolders that contain such files."""
    tracked: Dict[str, Set[str]] = {"": set()}
    for path in manifest.rows:
        folder, _, name = path.rpartition("/")
        while name not in tracked.setdefault(folder, set()):
            tracked[folder].add(name)
            folder, _, name = folder.rpartition("/")
            if not name:
                break
    return tracked
