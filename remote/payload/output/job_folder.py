"""Where a run that was asked for lies, and its newest job."""

from __future__ import annotations

import os

from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.layout import RunLayout


def run_root(call: Call) -> str:
    """The folder of the run that is asked for. Refuses where it is not there (any more)."""
    root = call.path(call.args["run"])
    if not os.path.isdir(root):
        name = os.path.basename(root)
        raise Refusal("no-run", f"the host has no run {name}", where=root, exit_code=ExitCode.JOB_LOST)
    return root


def newest_job(run_root: str) -> int:
    """The number of the newest job; 0 where there is none."""
    try:
        return max((int(name) for name in os.listdir(os.path.join(run_root, "jobs")) if name.isdigit()), default=0)
    except OSError:
        return 0


def job_folder(run_root: str, number: int) -> str:
    """The folder of a job; number 0 means the newest."""
    return RunLayout(run_root).job(number or newest_job(run_root)).root
