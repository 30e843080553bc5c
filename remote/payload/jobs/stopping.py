"""Stop a run: end its newest job, and the jobs that its command has submitted to Slurm."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Dict

from remote.payload.files.records import read_record, write_record
from remote.payload.jobs import slurm
from remote.payload.jobs.adoption import ensure_supervised
from remote.payload.jobs.job_loop import LEFTOVER_GRACE_S, halve_reserve
from remote.payload.jobs.orphans import orphans_of
from remote.payload.jobs.records import Queued, StopRequest, Submitted
from remote.payload.jobs.state import current_job, is_elsewhere, judge_job, run_layout, supervised
from remote.payload.jobs.supervisor_start import on_record, remove_launches
from remote.payload.processes.command_jobs import CANCEL_EVERY_S, CANCEL_FOR_S
from remote.payload.processes.identity import Process, is_alive, send_signal
from remote.payload.processes.launch import FULL
from remote.payload.processes.slurm_queue import is_living
from remote.payload.request.call import Call
from remote.protocol.job_requests import StopAnswer
from remote.protocol.jobs import JobResult, JobSpec, JobState, StartAnswer, Started
from remote.protocol.layout import JobLayout, RunLayout
from remote.protocol.values import encode

POLL_S = 0.02
STOP_SLACK_S = 30.0


def stop(call: Call) -> Dict[str, Any]:
    """Stop the newest job of the run and wait until all its processes have ended. Saved files are kept.

    Waits at most for the grace period plus 40 s. Then cancels the jobs that the command has submitted to Slurm, also if
    the job was not running.
    """
    run = run_layout(call, call.args["project"], call.args["run"])
    number, asked_unix = current_job(run), time.time()
    try:
        _stop_job(call, run, number, asked_unix)
        while (ended := judge_job(run, number).result) is not None and ended.next_job:
            number = ended.next_job
            _stop_job(call, run, number, asked_unix)
    finally:
        _withdraw_failed_stop(call, run, number, asked_unix)
    now = judge_job(run, number)
    in_slurm = slurm.jobs_of_command(run).cancel(lambda: _pause(call))
    if now.started is None or not now.started.has_slurm:
        in_slurm = in_slurm or ()  # A squeue that is installed, but has never answered, is no warning.
    left = tuple(process.pid for process in orphans_of(run, run.job(number))) if number else ()
    elsewhere = _machine_elsewhere(run.job(number), now)
    answer: Dict[str, Any] = encode(StopAnswer(now.run, number, now.state, now.result, left, in_slurm, elsewhere))
    return answer


def _machine_elsewhere(job: JobLayout, now: StartAnswer) -> str:
    """Return the other machine or container on which the job still runs, or "". Slurm's nodes do not count."""
    if now.state is not JobState.RUNNING or now.started is None or slurm.read_submitted(job) is not None:
        return ""
    return now.started.machine if is_elsewhere(now.started) else ""


def _stop_job(call: Call, run: RunLayout, number: int, asked_unix: float) -> None:
    job = run.job(number)
    ensure_supervised(call, run, number)
    if judge_job(run, number).state is JobState.RUNNING:
        spec = read_record(job.spec, JobSpec)
        grace = call.args.get("grace_s")
        grace_s = float(grace if grace is not None else spec.grace_s if spec is not None else 60.0)
        _write_request(job, StopRequest(grace_s, asked_unix))
        submitted = slurm.read_submitted(job)
        if submitted is not None:
            slurm.end(submitted.slurm_job, call.keep_alive)
        else:
            _signal_supervisor(job)
        _await_end(call, run, job, grace_s + LEFTOVER_GRACE_S + STOP_SLACK_S)
        if submitted is not None:
            _leave_queue(call, run, job, submitted)


def _write_request(job: JobLayout, request: StopRequest) -> None:
    """Write the request to stop. On a full disk, half of the space that is reserved for the result is used for it.

    If the request cannot be written even so, the supervisor only gets a SIGTERM, and the result says so.
    """
    try:
        write_record(job.stop, request)
    except OSError as error:
        if error.errno not in FULL:
            raise
        halve_reserve(job.reserve)
        with contextlib.suppress(OSError):
            write_record(job.stop, request)


def _withdraw_failed_stop(call: Call, run: RunLayout, number: int, asked_unix: float) -> None:
    """Remove this request if no supervisor obeys it. Otherwise one that adopts the job later would end the job."""
    call.keep_alive()
    job = run.job(number)
    if judge_job(run, number).state is JobState.RUNNING and not supervised(run, job):
        request = read_record(job.stop, StopRequest)
        if request is not None and request.at_unix == asked_unix:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(job.stop)


def _pause(call: Call) -> None:
    call.keep_alive()
    time.sleep(CANCEL_EVERY_S)


def _signal_supervisor(job: JobLayout) -> None:
    started = read_record(job.supervisor, Started) or read_record(job.queued, Queued)
    if started is not None and is_alive(started.pid, started.start_ticks, started.boot_id):
        send_signal(Process(started.pid, 0, started.start_ticks), signal.SIGTERM)


def _leave_queue(call: Call, run: RunLayout, job: JobLayout, submitted: Submitted) -> None:
    """Cancel the job in Slurm, unless it has a result: then it only sends its notification, and ends by itself."""
    if os.path.exists(job.result):
        return
    call.keep_alive()
    if is_living(slurm.queue_state(submitted.slurm_job)):
        slurm.kill(submitted.slurm_job)
        if on_record(job):
            _await_end(call, run, job, CANCEL_FOR_S)
    if not on_record(job):
        remove_launches(job)
        reason = "removed from Slurm's queue before it began"
        write_record(job.result, JobResult(130, stopped=True, reason=reason, ended_unix=time.time()))


def _await_end(call: Call, run: RunLayout, job: JobLayout, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    number = int(os.path.basename(job.root))
    while time.monotonic() < deadline and judge_job(run, number).state is JobState.RUNNING:
        call.keep_alive()
        time.sleep(slurm.poll_interval_s(job, POLL_S))
