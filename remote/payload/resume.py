"""Where a run may go on: its newest trainer checkpoint that verifies, every broken one out of a trainer's sight."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List

from remote.payload.call import Call
from remote.payload.checkpoint_files import BrokenCheckpoint, step_of
from remote.payload.checkpoints import (
    find_checkpoints,
    newest_verified,
    publish,
    remember_verdict,
    set_aside,
    unpublished,
    verify,
)
from remote.payload.job_state import judge_job, newest_job, run_layout
from remote.payload.processes import boot_id
from remote.payload.records import read_record
from remote.payload.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobSpec, JobState, ResumePoint, Started
from remote.protocol.layout import RunLayout
from remote.protocol.values import encode


def prepare(call: Call) -> Dict[str, Any]:
    """The run's `ResumePoint`: every digest was compared, and what did not agree lies under a name no trainer picks.

    Raises Refusal `no-checkpoint` (exit 43) where none verifies: beginning again at step 0 must be asked for.
    """
    run = run_layout(call, call.args["project"], call.args["run"])
    number = newest_job(run)
    if judge_job(run, number).state is JobState.RUNNING:
        message = f"job {number} of {call.args['run']} is running: its checkpoints are its own"
        raise Refusal("busy", message, exit_code=ExitCode.BUSY)
    _publish_complete(run, number)
    broken: List[str] = []
    reasons: List[str] = []
    for folder in find_checkpoints(run.root):
        problem = verify(folder)
        if problem:
            broken.append(os.path.relpath(set_aside(folder), run.root))
            reasons.append(f"checkpoint-{step_of(folder)}: {problem}")
        else:
            remember_verdict(folder)
    newest = newest_verified(run.root, trust_stat=True)
    if newest is None:
        raise _nothing(call.args["run"], reasons)
    point: Dict[str, Any] = encode(ResumePoint(os.path.join(run.root, newest.name), newest, tuple(broken)))
    return point


def _publish_complete(run: RunLayout, number: int) -> None:
    """Complete saves that nobody lived to publish have a manifest. After a reboot their bytes may never have reached
    the disk, so there none is believed."""
    started = read_record(run.job(number).supervisor, Started)
    spec = read_record(run.job(number).spec, JobSpec)
    if started is None or spec is None or started.boot_id != boot_id():
        return
    for folder in unpublished(run.root):
        with contextlib.suppress(BrokenCheckpoint):
            publish(folder, world_size=spec.processes)


def _nothing(run: str, reasons: List[str]) -> Refusal:
    words = "; ".join(reasons) if reasons else "it saved none"
    return Refusal(
        "no-checkpoint",
        f"no trainer checkpoint of {run} can be resumed from: {words}",
        where=run,
        hint="pipeline run --force train   (begins again at step 0; broken checkpoints are kept)",
        exit_code=ExitCode.CHECKPOINT,
    )
