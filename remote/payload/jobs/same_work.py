"""Use one run for two projects on a host that start the same work, for example from two laptops."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict

from remote.payload.files.atomic import make_private_folder
from remote.payload.files.lock import Held, take_lock
from remote.payload.output.job_folder import real_run
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.layout import PROJECTS, ProjectLayout, RunLayout

WAIT_S = 60.0


def join_run(call: Call) -> Dict[str, Any]:
    """If only another project has the run, link it to the project. Answer whether it was linked. Starts no job."""
    project, run = checked_name(call.args["project"]), checked_name(call.args["run"])
    known = os.path.isdir(os.path.join(call.workdir, ProjectLayout(project).run(run).root))
    joined = not known and _other_project(call.workdir, project, run) != ""
    if joined:
        claim_run(call.workdir, project, run)
    return {"joined": joined}


def claim_run(workdir: str, project: str, run: str) -> RunLayout:
    """Return the run's folder. If another project has this run, the folder is a link to the run of that project.

    A run id is a digest of the work, so an equal id in another project means equal work. Raises Refusal `busy` while
    another process starts this run.
    """
    folder = os.path.join(workdir, ProjectLayout(project).run(run).root)
    if not os.path.isdir(folder):
        make_private_folder(os.path.dirname(folder))
        try:
            with take_lock(os.path.join(workdir, PROJECTS, "start.lock"), run, wait_s=WAIT_S):
                _create(folder, _other_project(workdir, project, run))
        except Held as held:
            raise Refusal("busy", f"another process is starting {held}", exit_code=ExitCode.BUSY) from None
    return RunLayout(real_run(folder))


def _create(folder: str, other: str) -> None:
    if os.path.isdir(folder):
        return
    with contextlib.suppress(FileNotFoundError):  # The link leads to a run that was removed.
        os.unlink(folder)
    if other:
        os.symlink(os.path.relpath(other, os.path.dirname(folder)), folder)
    else:
        os.mkdir(folder, 0o700)


def _other_project(workdir: str, project: str, run: str) -> str:
    """Return the folder of the run in another project, or "" if no other project has the run."""
    projects = os.path.join(workdir, PROJECTS)
    for key in sorted(os.listdir(projects)) if os.path.isdir(projects) else ():
        folder = os.path.join(workdir, ProjectLayout(key).run(run).root)
        if key != project and os.path.isdir(folder) and not os.path.islink(folder):
            return folder
    return ""
