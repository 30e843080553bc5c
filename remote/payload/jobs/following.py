"""Follow the state, the event files and the output of a job until it ends. A job without a supervisor is adopted."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Optional, Tuple

from remote.payload.files.records import read_record
from remote.payload.jobs.adoption import ensure_supervised
from remote.payload.jobs.records import Flags
from remote.payload.jobs.slurm import poll_interval_s
from remote.payload.jobs.state import (
    current_job,
    ended_by_restart,
    job_seconds,
    observe_job,
    read_gauges,
    read_progress,
    run_layout,
    seconds_of_earlier_jobs,
)
from remote.payload.jobs.turn import why_waiting
from remote.payload.jobs.watch_notes import read_watch_notes
from remote.payload.output import follow
from remote.payload.output.job_folder import run_root
from remote.payload.request.call import Call
from remote.protocol.jobs import JobNews, JobResult, JobState
from remote.protocol.layout import RunLayout
from remote.protocol.values import encode

POLL_S = 0.1
OBSERVE_EVERY_S = 1.0


def follow_job(call: Call) -> Dict[str, Any]:
    """Push the job's `JobNews` whenever it changes. The last `JobNews` has a state other than RUNNING.

    If another job continues the run, that job is followed next.
    """
    run = run_layout(call, call.args["project"], call.args["run"])
    number = int(call.args.get("job") or current_job(run))
    pushed: Optional[Tuple[Any, ...]] = None
    while not call.connection.closed():
        ensure_supervised(call, run, number)
        news = read_news(run, number)
        if news.state is JobState.LOST:
            # The job may have ended after the first call of ensure_supervised; then its end can be judged now.
            ensure_supervised(call, run, number)
            news = read_news(run, number)
        if news.result is not None and news.result.next_job:
            number = news.result.next_job
            continue
        current = (news.state, news.progress, news.stalled, news.watched, news.gauges, news.waits)
        if current != pushed:
            pushed = current
            call.push(encode(news))
        if news.state is not JobState.RUNNING:
            return {}
        call.keep_alive()
        time.sleep(poll_interval_s(run.job(number), POLL_S))
    return {}


def read_news(run: RunLayout, number: int) -> JobNews:
    """Return the current `JobNews` of the job."""
    job, observed = run.job(number), observe_job(run, number)
    now, flags = observed.answer, read_record(job.flags, Flags)
    begun = now.started is not None or now.result is not None
    progress = read_progress(run, number, now.state) if begun else None
    return JobNews(
        number,
        now.state,
        progress,
        now.result,
        now.state is JobState.RUNNING and flags is not None and flags.stalled,
        read_watch_notes(run, now.started),
        read_gauges(job),
        job_seconds(now, progress),
        why_waiting(job, observed),
        observed.ended,
        seconds_of_earlier_jobs(run, number),
        ended_by_restart(job, now),
    )


def follow_events(call: Call) -> Dict[str, Any]:
    """Run `output.follow.follow_events` until the job has ended."""
    return follow.follow_events(call, _has_ended(call, whole_run=True))


def follow_log(call: Call) -> Dict[str, Any]:
    """Run `output.follow.follow_log` until the job has ended."""
    return follow.follow_log(call, _has_ended(call, whole_run=False))


def _has_ended(call: Call, *, whole_run: bool) -> Callable[[], bool]:
    """Return a function that returns True once the job has ended or is lost.

    The function checks the job at most once a second.

    If `whole_run` is True, the jobs that continue this job after Slurm's time limit must have ended too.
    """
    run = RunLayout(run_root(call))
    number = int(call.args.get("job", 0)) or current_job(run)
    observed_at = float("-inf")

    def ended() -> bool:
        nonlocal number, observed_at
        result = read_record(run.job(number).result, JobResult)
        if result is not None and result.next_job and whole_run:
            number = result.next_job
        elif os.path.exists(run.job(number).result):
            return True
        if time.monotonic() - observed_at < OBSERVE_EVERY_S:
            return False
        observed_at = time.monotonic()
        ensure_supervised(call, run, number)
        if observe_job(run, number).answer.state is not JobState.LOST:
            return False
        ensure_supervised(call, run, number)
        return observe_job(run, number).answer.state is JobState.LOST

    return ended
