"""One shared run if two projects on a host start the same work, for example from two laptops."""

from __future__ import annotations

import contextlib
import os

from remote.payload.files.atomic import make_private_folder
from remote.payload.files.lock import Held, take_lock
from remote.payload.output.job_folder import real_run
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.layout import PROJECTS, ProjectLayout, RunLayout

WAIT_S = 60.0


def claim_run(workdir: str, project: str, run: str) -> RunLayout:
    """Return the run's folder. If another project has this run already, create a link to its folder, else a new folder.

    A run id is a digest of the work, so an equal id in another project means equal work. Raises Refusal `busy`.
    """
    place = os.path.join(workdir, ProjectLayout(project).run(run).root)
    if not os.path.isdir(place):
        make_private_folder(os.path.dirname(place))
        try:
            with take_lock(os.path.join(workdir, PROJECTS, "start.lock"), run, wait_s=WAIT_S):
                _create(place, _other_project(workdir, project, run))
        except Held as held:
            raise Refusal("busy", f"another process is starting {held}", exit_code=ExitCode.BUSY) from None
    return RunLayout(real_run(place))


def _create(place: str, other: str) -> None:
    if os.path.isdir(place):
        return
    with contextlib.suppress(FileNotFoundError):  # a link to a run that was removed
        os.unlink(place)
    if other:
        os.symlink(os.path.relpath(other, os.path.dirname(place)), place)
    else:
        os.mkdir(place, 0o700)


def _other_project(workdir: str, project: str, run: str) -> str:
    """Return the folder of that run in another project; empty if there is none."""
    projects = os.path.join(workdir, PROJECTS)
    for key in sorted(os.listdir(projects)):
        folder = os.path.join(workdir, ProjectLayout(key).run(run).root)
        if key != project and os.path.isdir(folder) and not os.path.islink(folder):
            return folder
    return ""
