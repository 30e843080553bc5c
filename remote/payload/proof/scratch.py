"""A proof's own folder on the host: everything it writes lies in there, and nothing of it stays."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from typing import Iterator, List

from remote.payload.materialise import materialise
from remote.payload.processes import boot_id, is_alive, read_process
from remote.protocol.layout import PROJECTS, ProjectLayout, RunLayout

OWNER = "owner.json"


@dataclass(frozen=True)
class Scratch:
    """`run` is laid out like a run's folder; `temporary` is the command's TMPDIR, short enough for a socket's name."""

    root: str
    run: RunLayout
    hooks: str
    reports: str
    temporary: str
    output: str


@contextlib.contextmanager
def open_scratch(workdir: str, project: str, source: str) -> Iterator[Scratch]:
    """A scratch with a copy of the project in it; afterwards it is gone, and so is every folder that only held it."""
    layout = ProjectLayout(project)
    parent = os.path.join(workdir, layout.scratch)
    made = _make(parent)
    _sweep(parent)
    root = os.path.join(parent, f"proof-{secrets.token_hex(4)}")
    temporary = ""
    try:
        os.mkdir(root, 0o700)
        temporary = tempfile.mkdtemp(prefix="hs-")
        _own(root, temporary)
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
        _remove(root)
        if temporary:
            _remove(temporary)
        # Ours where they are empty, also where a killed proof made them; a folder that holds anything stays.
        ours = [parent, os.path.join(workdir, layout.root), os.path.join(workdir, PROJECTS)]
        for folder in [*ours, *(one for one in reversed(made) if one not in ours)]:
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def _make(folder: str) -> List[str]:
    """The folders that were not there before, outermost first."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(one)
    return list(reversed(missing))


def _own(root: str, temporary: str) -> None:
    me = read_process(os.getpid())
    ticks = me.ticks if me is not None else 0
    with open(os.path.join(root, OWNER), "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), "ticks": ticks, "boot": boot_id(), "temporary": temporary}, file)


def _sweep(parent: str) -> None:
    """What a proof left whose runner was killed is removed; a living one's is left alone."""
    for name in os.listdir(parent):
        root = os.path.join(parent, name)
        if not name.startswith("proof-"):
            continue
        try:
            with open(os.path.join(root, OWNER), encoding="utf-8") as file:
                owner = json.load(file)
            if is_alive(owner["pid"], owner["ticks"], owner["boot"]):
                continue
        except (OSError, ValueError, KeyError):
            # Without a readable owner it may be a moment old: a day later it is not.
            continue
        _remove(owner["temporary"])
        _remove(root)


def _remove(folder: str) -> None:
    """The folder is gone, also where the command took write permission from its own folders."""
    if not os.path.lexists(folder):
        return
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
