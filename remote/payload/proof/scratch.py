"""A proof's scratch folder on the host. It contains everything that the proof writes, and is removed afterwards."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from typing import Iterator

from remote.payload.files.leftovers import owned_folder, record_temporary_folder, remove
from remote.payload.tree.materialise import materialise
from remote.protocol.dataclass import dataclass
from remote.protocol.layout import ProjectLayout, RunLayout


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
    """Yield a scratch folder with a copy of the project. Remove it afterwards."""
    temporary = os.path.join(tempfile.gettempdir(), f"hs-{secrets.token_hex(6)}")
    with owned_folder(workdir, ProjectLayout(project), "proof", keep=source) as root:
        record_temporary_folder(root, temporary)
        os.mkdir(temporary, 0o700)
        try:
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
            remove(temporary)
