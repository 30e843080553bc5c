"""Gather the evidence of a job's end from the files in its folder."""

from __future__ import annotations

import contextlib
import os
from typing import Optional, Tuple

from remote.payload.checkpoints.adapter import adapter_saved_since
from remote.payload.checkpoints.published import newest_verified
from remote.payload.files.records import read_record
from remote.payload.jobs.exit_recorder import read_exit, received_sigterm
from remote.payload.jobs.verdict import Evidence, has_failed_rank, judge_end, launcher_got_sigterm
from remote.protocol.jobs import JobSpec, Progress, Started
from remote.protocol.layout import JobLayout, RunLayout

TAIL_BYTES = 64 * 1024
FULL_BYTES = 2**20
CLOCK_TOLERANCE_S = 2.0


def gather_evidence(
    run: RunLayout,
    job: JobLayout,
    spec: JobSpec,
    status: Optional[int],
    *,
    stop_requested: bool = False,
    sigterm_received: bool = False,
    at_time_limit: bool = False,
    oom_kills: int = 0,
    unkillable: int = 0,
    refused: str = "",
    slurm_left: Tuple[int, ...] = (),
) -> Evidence:
    """Return everything that is needed to judge the job's end.

    `status` is the wait(2) status, or None if it is unknown. `slurm_left` are the jobs that the command has submitted
    to Slurm itself and that have not ended.
    """
    checkpoint = None
    with contextlib.suppress(OSError, ValueError):
        checkpoint = newest_verified(run.root, trust_stat=True)
    started = read_record(job.supervisor, Started)
    # On several nodes, a SIGTERM in the output and the highest exit status prove nothing: if one node fails, srun ends
    # the other nodes with SIGTERM.
    on_nodes = ("{payload}", "nodes") in zip(spec.argv, spec.argv[1:])
    output = _read_tail(job.output)
    return Evidence(
        status=status,
        stop_requested=stop_requested or os.path.exists(job.stop),
        sigterm_received=sigterm_received or received_sigterm(job) or (not on_nodes and launcher_got_sigterm(output)),
        at_time_limit=at_time_limit,
        oom_kills=oom_kills,
        checkpoint=checkpoint.name if checkpoint is not None else "",
        progress=read_record(run.progress, Progress),
        steps=spec.steps,
        adapter=adapter_saved_since(run, started.started_unix - CLOCK_TOLERANCE_S if started is not None else 0.0),
        unkillable=unkillable,
        refused=refused,
        disk_full=_is_full(run.root),
        rank_failed=on_nodes and has_failed_rank(output),
        slurm_left=slurm_left,
    )


def _is_full(folder: str) -> bool:
    """Return True if the file system of the folder has no space or no inodes left for users."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < FULL_BYTES or (status.f_files > 0 and status.f_favail == 0)


def can_judge_unsupervised(run: RunLayout, job: JobLayout) -> bool:
    """Return True if a job that ended without a supervisor can be judged. Otherwise the job is lost.

    The job can be judged if its exit status was recorded or its work is complete.
    """
    spec = read_record(job.spec, JobSpec)
    if spec is None or read_record(job.supervisor, Started) is None or os.path.exists(job.result):
        return False
    if read_exit(job) is not None:
        return True
    return judge_end(gather_evidence(run, job, spec, None), 0.0).exit == 0


def _read_tail(path: str) -> bytes:
    """Return the last 64 KiB of a file, or b"" if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read()
    except OSError:
        return b""
