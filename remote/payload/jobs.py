"""Starting, adopting, stopping and following jobs: each operation may be asked twice and acts once."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import signal
import subprocess
import time
from typing import Any, Dict, List, Optional, Tuple

from remote.payload import supervisor
from remote.payload.call import Call
from remote.payload.job_state import judge_job, newest_job, orphans, read_news, run_layout, supervised
from remote.payload.launch import Launch, secret_folder, supervise_argv, write_launch
from remote.payload.lock import Held, take_lock
from remote.payload.materialise import materialise
from remote.payload.processes import Process, is_alive, send_signal
from remote.payload.records import read_record, write_record
from remote.payload.refusal import Refusal
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
from remote.protocol.layout import JobLayout, RunLayout
from remote.protocol.values import decode, encode

START_WAIT_S = 60.0
LOOK_S = 0.1
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
        _prepare(call, run, request)
        _spawn(call, run, run.job(spec.number), request)
        return _reply(dataclasses.replace(judge_job(run, spec.number), fresh=True))


def _refuse_while_busy(run: RunLayout, spec: JobSpec) -> None:
    for number in range(1, newest_job(run) + 1):
        if number == spec.number:
            continue
        other = judge_job(run, number)
        if other.state is JobState.RUNNING:
            left = orphans(run, run.job(number))
            words = f" without its supervisor (processes {_pids(left)})" if left else ""
            hint = f"pipeline attach {spec.run}, or pipeline stop {spec.run}"
            message = f"job {number} of {spec.run} is still running{words}"
            raise Refusal("busy", message, where=spec.run, hint=hint, exit_code=ExitCode.BUSY)


def _pids(processes: List[Process]) -> str:
    return ", ".join(str(process.pid) for process in processes)


def _prepare(call: Call, run: RunLayout, request: StartRequest) -> None:
    """The run is on record, its code lies there, and its job's folder holds the spec: all but the process."""
    spec = request.spec
    if read_record(run.record, RunRecord) is None:
        write_record(run.record, RunRecord(spec.run, request.config, spec.fingerprint, time.time(), request.settings))
    if request.fresh_code and os.path.isdir(run.code):
        os.rename(run.code, f"{run.root}/code-before-job-{spec.number}-{secrets.token_hex(2)}")
    if not os.path.isdir(run.code):
        materialise(call.workdir, request.project, run.code)
    job = run.job(spec.number)
    with contextlib.suppress(FileExistsError):
        os.mkdir(job.root)
    cwd = call.path(spec.cwd) if spec.cwd else run.code
    write_record(job.spec, dataclasses.replace(spec, cwd=cwd))


def _spawn(call: Call, run: RunLayout, job: JobLayout, request: StartRequest) -> None:
    launch = _write_launch(job, Launch(request.secrets))
    words = _run_supervisor("detach", call.payload, job, launch)
    if read_record(job.supervisor, Started) is None and read_record(job.result, JobResult) is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(launch)
        raise Refusal("not-started", f"the supervisor of {job.root} ended before it started anything: {words}")


def _write_launch(job: JobLayout, launch: Launch) -> str:
    """The path of a new file of values for the supervisor; "" where there are none to hand over."""
    folder = secret_folder() or job.root
    stem = f"launch-{job.root.replace('/', '_')[-80:]}-"
    for name in os.listdir(folder):
        if name.startswith(stem):
            os.unlink(os.path.join(folder, name))
    if not launch.secrets and not launch.environment:
        return ""
    path = os.path.join(folder, stem + secrets.token_hex(8))
    write_launch(path, launch)
    return path


def _run_supervisor(mode: str, payload: str, job: JobLayout, launch: str) -> str:
    """A supervisor was started; back once it has its job on record or has ended. What it said so far."""
    log = f"{job.root}/supervisor.log"
    reader, writer = os.pipe()
    with open(log, "ab") as output:
        first = subprocess.Popen(
            supervise_argv(payload, mode, job.root, launch, writer),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(writer,),
            start_new_session=True,
            cwd="/",
        )
    os.close(writer)
    # Whoever has the other end closes it when the job is on record, or by dying: both end this read.
    with os.fdopen(reader, "rb") as end:
        end.read()
    first.wait()
    with open(log, "rb") as said:
        return said.read()[-2000:].decode("utf-8", "replace").strip()


def _reply(answer: StartAnswer) -> Dict[str, Any]:
    reply: Dict[str, Any] = encode(answer)
    return reply


def adopt(call: Call) -> Dict[str, Any]:
    """A job whose supervisor was killed has a new one, which watches it to its end; one that has its own keeps it."""
    run = run_layout(call, call.args["project"], call.args["run"])
    number = newest_job(run)
    if number and orphans(run, run.job(number)):
        _adopt_orphans(call, run.job(number))
    return _reply(judge_job(run, number))


def _adopt_orphans(call: Call, job: JobLayout) -> None:
    _run_supervisor("adopt", call.payload, job, "")


def stop(call: Call) -> Dict[str, Any]:
    """The newest job of the run has ended and no process of it is left; what it saved stays.

    Waits for the grace and a little more. A job that is not running is left as it is.
    """
    run = run_layout(call, call.args["project"], call.args["run"])
    number = newest_job(run)
    job = run.job(number)
    if number and judge_job(run, number).state is JobState.RUNNING:
        if orphans(run, job):
            _adopt_orphans(call, job)
        spec = read_record(job.spec, JobSpec)
        grace = call.args.get("grace_s")
        grace_s = float(grace if grace is not None else spec.grace_s if spec is not None else 60.0)
        write_record(supervisor.stop_path(job), supervisor.StopWish(grace_s, time.time()))
        _signal_supervisor(job)
        _await_end(call, run, job, grace_s + supervisor.LEFTOVER_GRACE_S + STOP_SLACK_S)
    now = judge_job(run, number)
    left = tuple(process.pid for process in supervisor.orphans_of(run, job)) if number else ()
    answer: Dict[str, Any] = encode(StopAnswer(now.run, number, now.state, now.result, left))
    return answer


def _signal_supervisor(job: JobLayout) -> None:
    started = read_record(job.supervisor, Started)
    if started is not None and is_alive(started.pid, started.start_ticks, started.boot_id):
        send_signal(Process(started.pid, 0, started.start_ticks), signal.SIGTERM)


def _await_end(call: Call, run: RunLayout, job: JobLayout, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    spoke = time.monotonic()
    while time.monotonic() < deadline and not os.path.exists(job.result) and supervised(run, job):
        if time.monotonic() - spoke > HEARTBEAT_S:
            call.push({})
            spoke = time.monotonic()
        time.sleep(0.02)


def follow(call: Call) -> Dict[str, Any]:
    """Pushes JobNews whenever step, state or stall changed, until the job is no longer running."""
    run = run_layout(call, call.args["project"], call.args["run"])
    number = int(call.args.get("job") or newest_job(run))
    told: Optional[Tuple[Any, ...]] = None
    spoke = time.monotonic()
    while not call.line.gone():
        news = read_news(run, number)
        mark = (news.state, news.progress, news.stalled)
        if mark != told:
            told = mark
            call.push(encode(news))
            spoke = time.monotonic()
        if news.state is not JobState.RUNNING:
            return {}
        if time.monotonic() - spoke > HEARTBEAT_S:
            call.push({})
            spoke = time.monotonic()
        time.sleep(LOOK_S)
    return {}


def list_jobs(call: Call) -> Dict[str, Any]:
    """Every job of a run, oldest first, as `StartAnswer`s."""
    run = run_layout(call, call.args["project"], call.args["run"])
    return {"jobs": [encode(judge_job(run, number)) for number in range(1, newest_job(run) + 1)]}
