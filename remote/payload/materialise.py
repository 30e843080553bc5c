"""A job's own copy of the project: a later sync never disturbs what runs."""

from __future__ import annotations

import os
import shutil

from remote.payload.tree_commit import known_manifest
from remote.payload.tree_state import Project
from remote.protocol.layout import ProjectLayout


def materialise(workdir: str, project_key: str, target: str) -> None:
    """`target` holds the project's files as they lie on the host; what else lies in the tree (venv/, data/) is linked.

    It appears whole, by one rename.
    """
    layout = ProjectLayout(project_key)
    tree = os.path.join(workdir, layout.tree)
    part = f"{target}.part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    manifest = known_manifest(Project(workdir, layout))
    tops = set()
    for name in manifest.rows:
        tops.add(name.split("/")[0])
        source, copy = os.path.join(tree, name), os.path.join(part, name)
        if os.path.lexists(source):
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
    for name in os.listdir(tree) if os.path.isdir(tree) else []:
        if name not in tops:
            os.symlink(os.path.join(tree, name), os.path.join(part, name))
    os.rename(part, target)
