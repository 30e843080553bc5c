"""Continue a run that Slurm's time limit interrupts: the supervisor queues the next job from the compute node."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from typing import Dict

from remote.payload.checkpoints.files import step_of
from remote.payload.checkpoints.published import newest_verified
from remote.payload.files.records import write_record
from remote.payload.jobs.supervisor_start import queue_job
from remote.payload.request.refusal import Refusal
from remote.protocol.jobs import JobResult, JobSpec
from remote.protocol.layout import JobLayout, RunLayout


def continue_run(
    payload: str, run: RunLayout, job: JobLayout, spec: JobSpec, secrets: Dict[str, str], result: JobResult
) -> JobResult:
    """Queue the next job of the run after this job.

    Return the result with the number of the next job, or with the reason why it was not queued.
    """
    if not result.preempted:
        return result
    newest = newest_verified(run.root, trust_stat=True)
    if newest is None:
        return result
    resume_from = os.path.join(run.root, newest.name)
    refused = reason_not_to_continue(spec, newest.step, stopped=os.path.exists(job.stop))
    following = dataclasses.replace(spec, number=spec.number + 1, resume_from=resume_from, jobs_left=spec.jobs_left - 1)
    refused = refused or _queue(payload, run, following, secrets)
    if refused:
        return dataclasses.replace(result, reason=f"{result.reason}; not continued: {refused}")
    return dataclasses.replace(
        result, reason=f"{result.reason}; job {following.number} continues", next_job=following.number
    )


def reason_not_to_continue(spec: JobSpec, newest_step: int, *, stopped: bool) -> str:
    """Return the reason why the run must not be continued automatically, or "" if it may be. Pure."""
    began = step_of(spec.resume_from) if spec.resume_from else 0
    if stopped:
        return "stopped on request"
    if newest_step <= began:
        return f"no new checkpoint since step {began}; the time limit is too short"
    return "" if spec.jobs_left > 0 else "the run has used all its jobs (slurm.max_jobs)"


def _queue(payload: str, run: RunLayout, spec: JobSpec, secrets: Dict[str, str]) -> str:
    """Queue the job so that it starts after this job has ended. Return the reason if that failed, otherwise ""."""
    this_job = os.environ.get("SLURM_JOB_ID", "")
    after = run.job(spec.number)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(after.root)
        write_record(after.spec, spec)
        queue_job(payload, after, spec, secrets, (*spec.slurm, f"--dependency=afterany:{this_job}"))
    except (OSError, Refusal) as error:
        if os.path.exists(after.result):
            return ""  # A stop has cancelled the job while sbatch did not answer.
        # The folder is removed, so that the preempted job remains the newest job of the run.
        shutil.rmtree(after.root, ignore_errors=True)
        return str(error)
    return ""
