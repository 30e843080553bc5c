"""The lock of one project, so that only one process changes the project at a time."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

from remote.payload.files.atomic import make_private_folder
from remote.payload.files.lock import Held, take_lock
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.payload.request.refusal import Refusal
from remote.payload.tree.commit import recover
from remote.payload.tree.state import Project
from remote.protocol.exits import ExitCode
from remote.protocol.layout import ProjectLayout


def open_project(call: Call) -> Project:
    """Return the project that the request names. Raises Refusal if the project's key is not a plain folder name."""
    return Project(call.workdir, ProjectLayout(checked_name(call.args.get("project", ""))))


def ensure_private(project: Project) -> None:
    """Create the project's folder, or change its mode, so that other users cannot enter it (mode 0700)."""
    make_private_folder(project.root)
    if os.stat(project.root).st_mode & 0o077:
        # Only the owner of a folder can change its mode. The mode of another user's folder is kept.
        with contextlib.suppress(PermissionError):
            os.chmod(project.root, 0o700)


@contextlib.contextmanager
def locked_project(project: Project, description: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the project's lock while the block runs, after completing any interrupted commit of its tree.

    Raises Refusal `busy` if another process still holds the lock after `wait_s`.
    """
    ensure_private(project)
    try:
        with take_lock(project.at(project.layout.lock), description, wait_s=wait_s):
            recover(project)
            yield
    except Held as held:
        raise Refusal(
            "busy",
            f"another process is changing {project.layout.key}: {held}",
            where=project.root,
            hint="wait for it to end, then run the command again",
            exit_code=ExitCode.BUSY,
        ) from None
