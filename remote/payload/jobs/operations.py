"""Starting, adopting, stopping and following jobs: each operation may be asked twice and acts once."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import signal
import time
from typing import Any, Dict, Iterable, Optional, Tuple

from remote.payload.files.lock import Held, take_lock
from remote.payload.files.records import read_record, write_record
from remote.payload.jobs import keeper, slurm, supervisor
from remote.payload.jobs.adoption import take_up
from remote.payload.jobs.backends import launch_job, on_record
from remote.payload.jobs.evidence import stop_path
from remote.payload.jobs.state import judge_job, newest_job, observe_job, read_news, run_layout
from remote.payload.probes.machine import user_name
from remote.payload.processes.identity import Process, is_alive, send_signal
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.materialise import materialise
from remote.payload.tree.shared import SharedFiles, make_private
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import (
    JobResult,
    JobSpec,
    JobState,
    RunRecord,
    StartAnswer,
    Started,
    StartRequest,
    StopAnswer,
)
from remote.protocol.layout import JobLayout, ProjectLayout, RunLayout
from remote.protocol.parts import sweep
from remote.protocol.values import decode, encode

START_WAIT_S = 60.0
LOOK_S = 0.1
SLURM_LOOK_S = 2.0
HEARTBEAT_S = 10.0
STOP_SLACK_S = 30.0


def start(call: Call) -> Dict[str, Any]:
    """The job runs, or ran: a number is started once, however often and from wherever it is asked for.

    Raises Refusal `busy` while another job of the run lives.
    """
    request = decode(StartRequest, call.args)
    spec = request.spec
    run = run_layout(call, request.project, spec.run)
    if spec.number < 1:
        raise Refusal("usage", f"jobs are numbered from 1, got {spec.number}", exit_code=ExitCode.USAGE)
    os.makedirs(f"{run.root}/jobs", exist_ok=True)
    try:
        guard = take_lock(f"{run.root}/start.lock", "starting", wait_s=START_WAIT_S)
    except Held:
        raise Refusal("busy", f"{spec.run} is being started by somebody else", exit_code=ExitCode.BUSY)
    with guard:
        now = judge_job(run, spec.number)
        if now.state is not JobState.ABSENT:
            return _reply(now)
        _refuse_while_busy(run, spec)
        _tidy(run)
        _prepare(call, run, request)
        launch_job(call.payload, run.job(spec.number), spec, request, user_name())
        return _reply(dataclasses.replace(judge_job(run, spec.number), fresh=True))


def _refuse_while_busy(run: RunLayout, spec: JobSpec) -> None:
    for number in range(1, newest_job(run) + 1):
        if number == spec.number:
            continue
        other = observe_job(run, number)
        if other.answer.state is JobState.RUNNING:
            words = f" without its supervisor (processes {_pids(other.orphans)})" if other.orphans else ""
            hint = f"pipeline attach {spec.run}, or pipeline stop {spec.run}"
            message = f"job {number} of {spec.run} is still running{words}"
            raise Refusal("busy", message, where=spec.run, hint=hint, exit_code=ExitCode.BUSY)


def _tidy(run: RunLayout) -> None:
    """What a killed supervisor held back, or was writing, is gone: none of the run's jobs lives any more."""
    for number in range(1, newest_job(run) + 1):
        sweep(run.job(number).root)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(keeper.reserve_path(run.job(number)))


def _pids(processes: Iterable[Process]) -> str:
    return ", ".join(str(process.pid) for process in processes)


def _prepare(call: Call, run: RunLayout, request: StartRequest) -> None:
    """The run is on record, its code lies there, and its job's folder holds the spec: all but the process."""
    spec = request.spec
    if read_record(run.record, RunRecord) is None:
        write_record(run.record, RunRecord(spec.run, request.config, spec.fingerprint, time.time(), request.settings))
    if request.fresh_code and os.path.isdir(run.code):
        os.rename(run.code, f"{run.root}/code-before-job-{spec.number}-{secrets.token_hex(2)}")
    if os.path.isdir(run.code):
        make_private(run.code)
    else:
        large = call.path(ProjectLayout(request.project).large)
        shared = SharedFiles(large, spec.run, lambda other: _has_ended(run_layout(call, request.project, other)))
        materialise(call.workdir, request.project, run.code, shared)
    job = run.job(spec.number)
    with contextlib.suppress(FileExistsError):
        os.mkdir(job.root)
    cwd = call.path(spec.cwd) if spec.cwd else run.code
    write_record(job.spec, dataclasses.replace(spec, cwd=cwd))


def _has_ended(run: RunLayout) -> bool:
    """No process of the run's jobs lives, and none is about to start."""
    running = (JobState.RUNNING, JobState.ABSENT)
    return not os.path.isdir(run.root) or judge_job(run, newest_job(run)).state not in running


def _reply(answer: StartAnswer) -> Dict[str, Any]:
    reply: Dict[str, Any] = encode(answer)
    return reply


def adopt(call: Call) -> Dict[str, Any]:
    """A job whose supervisor was killed has a new one, which writes the result if the job ended meanwhile.

    A job with a supervisor of its own keeps it, and one of which nothing tells how it ended stays lost.
    """
    run = run_layout(call, call.args["project"], call.args["run"])
    number = newest_job(run)
    take_up(call, run, number)
    return _reply(judge_job(run, number))


def stop(call: Call) -> Dict[str, Any]:
    """The newest job of the run has ended and no process of it is left; what it saved stays.

    Waits for the grace and a little more. A job that is not running is left as it is.
    """
    run = run_layout(call, call.args["project"], call.args["run"])
    number = newest_job(run)
    job = run.job(number)
    take_up(call, run, number)
    if judge_job(run, number).state is JobState.RUNNING:
        spec = read_record(job.spec, JobSpec)
        grace = call.args.get("grace_s")
        grace_s = float(grace if grace is not None else spec.grace_s if spec is not None else 60.0)
        write_record(stop_path(job), keeper.StopWish(grace_s, time.time()))
        submitted = slurm.read_submitted(job)
        if submitted is not None:
            slurm.end(submitted.slurm_job)
        else:
            _signal_supervisor(job)
        _await_end(call, run, job, grace_s + keeper.LEFTOVER_GRACE_S + STOP_SLACK_S)
        if submitted is not None:
            _see_it_out_of_the_queue(job, submitted)
    now = judge_job(run, number)
    left = tuple(process.pid for process in supervisor.orphans_of(run, job)) if number else ()
    answer: Dict[str, Any] = encode(StopAnswer(now.run, number, now.state, now.result, left))
    return answer


def _signal_supervisor(job: JobLayout) -> None:
    started = read_record(job.supervisor, Started)
    if started is not None and is_alive(started.pid, started.start_ticks, started.boot_id):
        send_signal(Process(started.pid, 0, started.start_ticks), signal.SIGTERM)


def _see_it_out_of_the_queue(job: JobLayout, submitted: slurm.Submitted) -> None:
    if slurm.is_living(slurm.queue_state(submitted.slurm_job)):
        slurm.kill(submitted.slurm_job)
    if not on_record(job):
        reason = "taken out of Slurm's queue before it began"
        write_record(job.result, JobResult(130, stopped=True, reason=reason, ended_unix=time.time()))


def _await_end(call: Call, run: RunLayout, job: JobLayout, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    spoke = time.monotonic()
    number = int(os.path.basename(job.root))
    while time.monotonic() < deadline and judge_job(run, number).state is JobState.RUNNING:
        if time.monotonic() - spoke > HEARTBEAT_S:
            call.push({})
            spoke = time.monotonic()
        time.sleep(look_every_s(job, 0.02))


def look_every_s(job: JobLayout, usual: float) -> float:
    """How long to wait between two looks: Slurm's controller is not to be asked fifty times a second."""
    return SLURM_LOOK_S if slurm.read_submitted(job) is not None else usual


def follow(call: Call) -> Dict[str, Any]:
    """Pushes JobNews whenever step, state, stall or what the watch saw changed, until the job is no longer running."""
    run = run_layout(call, call.args["project"], call.args["run"])
    number = int(call.args.get("job") or newest_job(run))
    told: Optional[Tuple[Any, ...]] = None
    spoke = time.monotonic()
    while not call.line.gone():
        take_up(call, run, number)
        news = read_news(run, number)
        mark = (news.state, news.progress, news.stalled, news.watched)
        if mark != told:
            told = mark
            call.push(encode(news))
            spoke = time.monotonic()
        if news.state is not JobState.RUNNING:
            return {}
        if time.monotonic() - spoke > HEARTBEAT_S:
            call.push({})
            spoke = time.monotonic()
        time.sleep(look_every_s(run.job(number), LOOK_S))
    return {}


def list_jobs(call: Call) -> Dict[str, Any]:
    """Every job of a run, oldest first, as `StartAnswer`s."""
    run = run_layout(call, call.args["project"], call.args["run"])
    return {"jobs": [encode(judge_job(run, number)) for number in range(1, newest_job(run) + 1)]}
