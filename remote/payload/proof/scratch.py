"""A proof's scratch folder on the host. It contains everything that the proof writes, and is removed afterwards."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from typing import Iterator, List

from remote.payload.files.leftovers import new_owned_name, record_temporary_folder, remove, sweep_scratch
from remote.payload.tree.materialise import materialise
from remote.protocol.dataclass import dataclass
from remote.protocol.layout import PROJECTS, ProjectLayout, RunLayout


@dataclass(frozen=True)
class Scratch:
    """The paths of a scratch folder.

    `run` has the layout of a run's folder. `temporary` is the command's TMPDIR, short enough for the path of a socket.
    """

    root: str
    run: RunLayout
    hooks: str
    reports: str
    temporary: str
    output: str


@contextlib.contextmanager
def open_scratch(workdir: str, project: str, source: str) -> Iterator[Scratch]:
    """Yield a scratch folder with a copy of the project. Remove it afterwards, with the parents created for it."""
    layout = ProjectLayout(project)
    parent = os.path.join(workdir, layout.scratch)
    made = _make(parent)
    sweep_scratch(parent, keep=source)
    root = os.path.join(parent, new_owned_name("proof"))
    temporary = os.path.join(tempfile.gettempdir(), f"hs-{secrets.token_hex(6)}")
    owned = [root]
    try:
        os.mkdir(root, 0o700)
        record_temporary_folder(root, temporary)
        os.mkdir(temporary, 0o700)
        owned.append(temporary)
        run = RunLayout(os.path.join(root, "run"))
        for folder in (run.root, run.checkpoints, run.tensorboard, os.path.join(root, "reports")):
            os.makedirs(folder)
        if source:
            shutil.copytree(source, run.code, symlinks=True)
        else:
            materialise(workdir, project, run.code)
        yield Scratch(
            root,
            run,
            os.path.join(root, "hooks"),
            os.path.join(root, "reports"),
            temporary,
            os.path.join(root, "output.log"),
        )
    finally:
        for folder in owned:
            remove(folder)
        # Also remove folders that a killed proof made. A folder that is not empty stays.
        holders = [parent, os.path.join(workdir, layout.root), os.path.join(workdir, PROJECTS)]
        for folder in [*holders, *(one for one in reversed(made) if one not in holders)]:
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def _make(folder: str) -> List[str]:
    """Create a folder with its parents; return the folders that did not exist, outermost first."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(one)
    return list(reversed(missing))
