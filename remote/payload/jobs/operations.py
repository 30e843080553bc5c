"""Operations that start, adopt and list jobs. Each operation is idempotent."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from typing import Any, Dict, Iterable, List, Tuple

from remote.payload.checkpoints.found import record_sent
from remote.payload.files.lock import Held, Lock, take_lock
from remote.payload.files.records import read_record, write_record
from remote.payload.jobs import slurm, state
from remote.payload.jobs.adoption import ensure_supervised
from remote.payload.jobs.code_copy import describe_change, moved_path, record_files, restore_created, set_code_aside
from remote.payload.jobs.same_work import claim_run
from remote.payload.jobs.state import judge_job, observe_job, run_layout
from remote.payload.jobs.supervisor_start import launch_job, queue_array
from remote.payload.jobs.turn import jobs_before, turn_of
from remote.payload.output.job_folder import newest_job
from remote.payload.probes.machine import user_name
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.payload.request.refusal import Refusal
from remote.payload.tree.materialise import materialise
from remote.payload.tree.shared import SharedFiles, unshare_large_files
from remote.protocol.exits import ExitCode
from remote.protocol.job_requests import RunRecord, StartRequest
from remote.protocol.jobs import JobSpec, JobState, StartAnswer
from remote.protocol.layout import PROJECTS, JobLayout, ProjectLayout, RunLayout
from remote.protocol.parts import sweep
from remote.protocol.shell import shell_command
from remote.protocol.slurm import ArrayRequest
from remote.protocol.values import decode, encode

START_WAIT_S = 60.0


def start(call: Call) -> Dict[str, Any]:
    """Start the job, unless it was already started. Return its `StartAnswer`.

    Raises Refusal `busy` while another job of the run is alive, and if the job was started with other inputs, for
    example from another laptop that resumed the run at the same time.
    """
    request = decode(StartRequest, call.args)
    spec = request.spec
    if spec.number < 1:
        raise Refusal("usage", f"jobs are numbered from 1, got {spec.number}", exit_code=ExitCode.USAGE)
    run = claim_run(call.workdir, checked_name(request.project), checked_name(spec.run))
    os.makedirs(f"{run.root}/jobs", exist_ok=True)
    try:
        guard = take_lock(f"{run.root}/start.lock", "starting", wait_s=START_WAIT_S)
    except Held:
        raise Refusal("busy", f"another process is starting {spec.run}", exit_code=ExitCode.BUSY)
    with guard:
        now = judge_job(run, spec.number)
        if now.state is not JobState.ABSENT:
            _refuse_other_inputs(run, spec)
            return _reply(now)
        _refuse_while_busy(run, spec)
        _remove_leftovers(run)
        notes = _prepare(call, run, request)
        with _queue_lock(call) if request.queue else contextlib.nullcontext():
            if request.queue:
                _queue_behind(call, run.job(spec.number))
            launch_job(call.payload, run.job(spec.number), spec, request, user_name())
        return _reply(dataclasses.replace(judge_job(run, spec.number), fresh=True, notes=notes))


def submit_array(call: Call) -> Dict[str, Any]:
    """Submit prepared jobs to Slurm. Jobs with the same options become one array.

    Jobs that were already submitted are skipped.
    """
    request = decode(ArrayRequest, call.args)
    groups: Dict[Tuple[Any, ...], List[Tuple[JobLayout, Dict[str, str]]]] = {}
    with _queue_lock(call):
        for held in request.jobs:
            run = run_layout(call, request.project, held.run)
            job, spec = run.job(held.number), read_record(run.job(held.number).spec, JobSpec)
            if spec is None:
                raise Refusal("usage", f"job {held.number} of {held.run} was not prepared", exit_code=ExitCode.USAGE)
            if judge_job(run, held.number).state is JobState.ABSENT:
                groups.setdefault((spec.slurm, spec.grace_s), []).append((job, held.secrets))
        folder = call.path(ProjectLayout(checked_name(request.project)).arrays)
        for (options, grace_s), jobs in groups.items():
            queue_array(call.payload, folder, jobs, options, grace_s)
    return {"submitted": sum(map(len, groups.values()))}


def _queue_lock(call: Call) -> Lock:
    try:
        return take_lock(call.path(f"{PROJECTS}/queue.lock"), "queueing", wait_s=START_WAIT_S)
    except Held:
        raise Refusal("busy", "another process is queueing a job", exit_code=ExitCode.BUSY)


def _queue_behind(call: Call, job: JobLayout) -> None:
    """Add two values to the job's spec: its turn, and the jobs for which it waits.

    The caller holds the lock of the queue, so jobs that are queued at the same time get different turns.
    """
    spec = read_record(job.spec, JobSpec)
    assert spec is not None
    before = jobs_before(call.workdir, job, spec)
    turn = max([time.time_ns(), *(turn_of(JobLayout(other)) + 1 for other in before)])
    write_record(job.spec, dataclasses.replace(spec, after=before, turn=turn))


def _refuse_other_inputs(run: RunLayout, spec: JobSpec) -> None:
    begun = read_record(run.job(spec.number).spec, JobSpec)
    if begun is not None and begun.fingerprint != spec.fingerprint:
        message = f"job {spec.number} of {spec.run} was started with other inputs at the same time"
        hint = shell_command("pipeline status {}", spec.run)
        raise Refusal("busy", message, where=spec.run, hint=hint, exit_code=ExitCode.BUSY)


def _refuse_while_busy(run: RunLayout, spec: JobSpec) -> None:
    for number in range(1, newest_job(run) + 1):
        if number == spec.number:
            continue
        other = observe_job(run, number)
        if other.answer.state is JobState.RUNNING:
            pids = _listed(process.pid for process in other.orphans)
            started = other.answer.started
            machine = started.machine if started is not None and state.is_elsewhere(started) else ""
            place = f" on another machine or in another container ({machine})" if machine else ""
            place = f" without its supervisor (processes {pids})" if pids else place
            hint = shell_command("pipeline attach {}, or pipeline stop {}", spec.run, spec.run)
            message = f"job {number} of {spec.run} is still running{place}"
            raise Refusal("busy", message, where=spec.run, hint=hint, exit_code=ExitCode.BUSY)
    if in_slurm := slurm.jobs_of_command(run).submitted(ending=True):
        message = f"an earlier job of {spec.run} submitted jobs to Slurm, which still run: {_listed(in_slurm)}"
        hint = shell_command("pipeline stop {}", spec.run)
        raise Refusal("busy", message, where=spec.run, hint=hint, exit_code=ExitCode.BUSY)


def _remove_leftovers(run: RunLayout) -> None:
    """Remove the files that killed supervisors left: disk reserves, places in the queue, partial files.

    No job of the run may be alive.
    """
    for number in range(1, newest_job(run) + 1):
        sweep(run.job(number).root)
        for left in (run.job(number).reserve, run.job(number).queued):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _prepare(call: Call, run: RunLayout, request: StartRequest) -> Tuple[str, ...]:
    """Create everything that the job needs: the run's record, its copy of the code, the job's folder with its spec.

    Return notes for the user.
    """
    spec = request.spec
    if read_record(run.record, RunRecord) is None:
        write_record(run.record, RunRecord(spec.run, request.config, spec.fingerprint, time.time(), request.settings))
    if request.fresh_code:
        set_code_aside(run, spec.number)
    if os.path.isdir(run.code):
        unshare_large_files(run.code)
    else:
        _copy_code(call, run, request)
    # Also without `fresh_code`, because an earlier start of this job may have been killed.
    moved = restore_created(run, spec.number)
    resume_from = moved_path(run, spec.number, spec.resume_from)
    spec = dataclasses.replace(spec, resume_from=resume_from)
    job = run.job(spec.number)
    with contextlib.suppress(FileExistsError):
        os.mkdir(job.root)
    # A stop that failed may have left its request. It does not apply to a job that is started again.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(job.stop)
    cwd = call.path(spec.cwd) if spec.cwd else run.code
    write_record(job.spec, dataclasses.replace(spec, cwd=cwd, slurm=request.slurm, jobs_left=request.max_jobs - 1))
    return tuple(filter(None, [describe_change(run, spec.number, moved)]))


def _copy_code(call: Call, run: RunLayout, request: StartRequest) -> None:
    large = call.path(ProjectLayout(request.project).large)
    shared = SharedFiles(large, request.spec.run, lambda other: _has_ended(run_layout(call, request.project, other)))

    def record(copy: str) -> None:
        record_sent(run.root, copy)
        record_files(run, copy)

    materialise(call.workdir, request.project, run.code, shared, before_rename=record)


def _has_ended(run: RunLayout) -> bool:
    """Return True if no process of the run is alive or about to start."""
    running = (JobState.RUNNING, JobState.ABSENT)
    return not os.path.isdir(run.root) or judge_job(run, newest_job(run)).state not in running


def _reply(answer: StartAnswer) -> Dict[str, Any]:
    reply: Dict[str, Any] = encode(answer)
    return reply


def adopt(call: Call) -> Dict[str, Any]:
    """Start a new supervisor for the newest job if the supervisor of that job was killed.

    If the job has ended, the new supervisor writes the result.

    A supervised job keeps its supervisor. A job that ended without evidence keeps its state LOST.
    """
    run = run_layout(call, call.args["project"], call.args["run"])
    number = newest_job(run)
    ensure_supervised(call, run, number)
    return _reply(judge_job(run, number))


def list_jobs(call: Call) -> Dict[str, Any]:
    """Return every job of a run, oldest first, as `StartAnswer`s."""
    run = run_layout(call, call.args["project"], call.args["run"])
    return {"jobs": [encode(answer) for answer in state.list_jobs(run, newest_job(run))]}
