"""Where the newest job of a run lies."""

from __future__ import annotations

import os

from remote.protocol.layout import RunLayout


def newest_job(run_root: str) -> int:
    """The number of the newest job; 0 where there is none."""
    try:
        return max((int(name) for name in os.listdir(os.path.join(run_root, "jobs")) if name.isdigit()), default=0)
    except OSError:
        return 0


def job_folder(run_root: str, number: int) -> str:
    """The folder of a job; number 0 means the newest."""
    return RunLayout(run_root).job(number or newest_job(run_root)).root
