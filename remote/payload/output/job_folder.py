"""The folders of the run and the job of a request."""

from __future__ import annotations

import os

from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.layout import RunLayout


def run_root(call: Call) -> str:
    """Return the folder of the requested run. Raises Refusal if it does not exist."""
    root = real_run(call.path(call.args["run"]))
    if not os.path.isdir(root):
        name = os.path.basename(root)
        raise Refusal("no-run", f"run {name} is not on the host", where=root, exit_code=ExitCode.JOB_LOST)
    return root


def real_run(root: str) -> str:
    """Return the real folder of a run.

    The folder of a run is a link if another project on the host started the same work first.
    """
    return os.path.normpath(os.path.join(os.path.dirname(root), os.readlink(root))) if os.path.islink(root) else root


def newest_job(run: RunLayout) -> int:
    """Return the number of the run's newest job, or 0 if the run has no job."""
    try:
        return max((int(name) for name in os.listdir(os.path.join(run.root, "jobs")) if name.isdigit()), default=0)
    except OSError:
        return 0


def job_folder(run_root: str, number: int) -> str:
    """Return the folder of a job. Number 0 means the newest job."""
    run = RunLayout(run_root)
    return run.job(number or newest_job(run)).root
