"""One project, held by one who changes it."""

from __future__ import annotations

import contextlib
import re
from typing import Iterator

from remote.payload.files.lock import Held, take_lock
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.commit import recover
from remote.payload.tree.state import Project
from remote.protocol.exits import ExitCode
from remote.protocol.layout import ProjectLayout


def open_project(call: Call) -> Project:
    """The project that the call is about. Raises Refusal where its key is not a plain folder name."""
    key = call.args.get("project", "")
    if not isinstance(key, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", key):
        raise Refusal("bad-project", f"{key!r} is not the name of a project", exit_code=ExitCode.USAGE)
    return Project(call.workdir, ProjectLayout(key))


@contextlib.contextmanager
def held_project(project: Project, words: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Nobody else changes the project meanwhile, and no change of its tree is half done.

    Raises Refusal, busy, where somebody else still holds it after `wait_s`.
    """
    try:
        with take_lock(project.at(project.layout.lock), words, wait_s=wait_s):
            recover(project)
            yield
    except Held as held:
        raise Refusal(
            "busy",
            f"somebody else is changing {project.layout.key}: {held}",
            where=project.root,
            hint="wait for it to end, then type the same again",
            exit_code=ExitCode.BUSY,
        ) from None
