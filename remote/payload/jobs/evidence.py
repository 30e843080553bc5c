"""What a job left behind, gathered from its folder: whether it finished its work, even where nobody saw it end."""

from __future__ import annotations

import contextlib
import os
from typing import Optional

from remote.payload.checkpoints.adapter import adapter_saved_since
from remote.payload.checkpoints.published import newest_verified
from remote.payload.files.records import read_record
from remote.payload.jobs.verdict import Evidence, judge_end, launcher_was_told
from remote.payload.jobs.witness import read_exit
from remote.protocol.jobs import JobSpec, Progress, Started
from remote.protocol.layout import JobLayout, RunLayout

OUTPUT_END = 64 * 1024
CLOCKS_S = 2.0


def stop_path(job: JobLayout) -> str:
    return f"{job.root}/stop.json"


def gather_evidence(
    run: RunLayout,
    job: JobLayout,
    spec: JobSpec,
    status: Optional[int],
    *,
    sigterm_received: bool = False,
    oom_kills: int = 0,
    left: int = 0,
) -> Evidence:
    """Everything by which the end of the job is judged. `status` is wait(2)'s; None: unknown."""
    checkpoint = None
    with contextlib.suppress(OSError, ValueError):
        checkpoint = newest_verified(run.root, trust_stat=True)
    started = read_record(job.supervisor, Started)
    return Evidence(
        status=status,
        asked=os.path.exists(stop_path(job)),
        told=sigterm_received or launcher_was_told(read_end(job.output)),
        oom_kills=oom_kills,
        checkpoint=checkpoint.name if checkpoint is not None else "",
        progress=read_record(run.progress, Progress),
        steps=spec.steps,
        adapter=adapter_saved_since(run, started.started_unix - CLOCKS_S if started is not None else 0.0),
        left=left,
    )


def ended_unseen(run: RunLayout, job: JobLayout) -> bool:
    """Its end can be told although no supervisor saw it: by the exit status that its witness kept, or by finished
    work. A job of which nothing tells how it ended is lost."""
    spec = read_record(job.spec, JobSpec)
    if spec is None or read_record(job.supervisor, Started) is None or os.path.exists(job.result):
        return False
    if read_exit(job) is not None:
        return True
    return judge_end(gather_evidence(run, job, spec, None), 0.0).exit == 0


def read_end(path: str) -> bytes:
    """The last 64 KiB of a file; nothing where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - OUTPUT_END))
            return file.read()
    except OSError:
        return b""
