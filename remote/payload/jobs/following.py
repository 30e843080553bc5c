"""Following a job until it ends: its state, its event files, its output. A follower also keeps it supervised."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Optional, Tuple

from remote.payload.jobs.adoption import ensure_supervised
from remote.payload.jobs.slurm import poll_interval_s
from remote.payload.jobs.state import observe_job, read_news, run_layout
from remote.payload.output import follow
from remote.payload.output.job_folder import newest_job, run_root
from remote.payload.request.call import Call
from remote.protocol.jobs import JobState
from remote.protocol.layout import RunLayout
from remote.protocol.values import encode

POLL_S = 0.1
OBSERVE_EVERY_S = 1.0


def follow_job(call: Call) -> Dict[str, Any]:
    """Push the job's `JobNews` whenever it changes; the last one has a state other than RUNNING."""
    run = run_layout(call, call.args["project"], call.args["run"])
    number = int(call.args.get("job") or newest_job(run))
    pushed: Optional[Tuple[Any, ...]] = None
    while not call.connection.closed():
        ensure_supervised(call, run, number)
        news = read_news(run, number)
        current = (news.state, news.progress, news.stalled, news.watched, news.gauges)
        if current != pushed:
            pushed = current
            call.push(encode(news))
        if news.state is not JobState.RUNNING:
            return {}
        call.keep_alive()
        time.sleep(poll_interval_s(run.job(number), POLL_S))
    return {}


def follow_events(call: Call) -> Dict[str, Any]:
    """`output.follow.follow_events` until the job has ended."""
    return follow.follow_events(call, _has_ended(call))


def follow_log(call: Call) -> Dict[str, Any]:
    """`output.follow.follow_log` until the job has ended."""
    return follow.follow_log(call, _has_ended(call))


def _has_ended(call: Call) -> Callable[[], bool]:
    """Return a function that is True once the job has ended or is lost; it checks at most once a second."""
    run = RunLayout(run_root(call))
    number = int(call.args.get("job", 0)) or newest_job(run)
    observed_at = float("-inf")

    def ended() -> bool:
        nonlocal observed_at
        if os.path.exists(run.job(number).result):
            return True
        if time.monotonic() - observed_at < OBSERVE_EVERY_S:
            return False
        observed_at = time.monotonic()
        ensure_supervised(call, run, number)
        return observe_job(run, number).answer.state is JobState.LOST

    return ended
