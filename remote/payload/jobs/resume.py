"""Prepare a resume: find the newest trainer checkpoint that passes verification, and rename broken checkpoints."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List

from remote.payload.checkpoints.files import BrokenCheckpoint, step_of
from remote.payload.checkpoints.found import find_checkpoints
from remote.payload.checkpoints.published import (
    publish,
    remember_verdict,
    set_aside,
    size_of,
    unpublished,
    verify,
)
from remote.payload.files.records import read_record
from remote.payload.jobs.state import judge_job, run_layout
from remote.payload.output.job_folder import newest_job
from remote.payload.processes.identity import boot_id
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import Checkpoint, JobSpec, JobState, ResumePoint, Started
from remote.protocol.layout import RunLayout
from remote.protocol.values import encode


def prepare(call: Call) -> Dict[str, Any]:
    """Verify every digest of the run's checkpoints, rename broken checkpoints, and return the run's `ResumePoint`.

    Raises Refusal `no-checkpoint` (exit 43) if no checkpoint passes. A new start at step 0 needs an explicit request.
    """
    run = run_layout(call, call.args["project"], call.args["run"])
    number = newest_job(run)
    if judge_job(run, number).state is JobState.RUNNING:
        message = f"job {number} of {call.args['run']} is running, and its checkpoints may change"
        raise Refusal("busy", message, exit_code=ExitCode.BUSY)
    _publish_complete(run, number)
    problems = {folder: verify(folder) for folder in find_checkpoints(run.root)}
    intact = [folder for folder, problem in problems.items() if not problem]
    if not intact:
        # Without a verified checkpoint, broken checkpoints keep their names. If they were renamed, the next attempt
        # would find no checkpoint and start at step 0.
        raise _no_checkpoint(
            call.args["run"], [f"checkpoint-{step_of(folder)}: {why}" for folder, why in problems.items()]
        )
    for folder in intact:
        remember_verdict(folder)
    broken = tuple(os.path.relpath(set_aside(folder), run.root) for folder, why in problems.items() if why)
    newest = Checkpoint(os.path.relpath(intact[0], run.root), step_of(intact[0]), size_of(intact[0]))
    point: Dict[str, Any] = encode(ResumePoint(intact[0], newest, broken))
    return point


def _publish_complete(run: RunLayout, number: int) -> None:
    """Publish complete checkpoints that a killed supervisor left unpublished.

    After a reboot they are not published, because their contents may never have reached the disk.
    """
    started = read_record(run.job(number).supervisor, Started)
    spec = read_record(run.job(number).spec, JobSpec)
    if started is None or spec is None or started.boot_id != boot_id():
        return
    for folder in unpublished(run.root):
        with contextlib.suppress(BrokenCheckpoint):
            publish(folder, world_size=spec.processes)


def _no_checkpoint(run: str, reasons: List[str]) -> Refusal:
    problem = f"is valid ({'; '.join(reasons)})" if reasons else "was saved"
    return Refusal(
        "no-checkpoint",
        f"no trainer checkpoint of {run} {problem}",
        where=run,
        hint="pipeline run --force train   (starts again at step 0; broken checkpoints are kept)",
        exit_code=ExitCode.CHECKPOINT,
    )
