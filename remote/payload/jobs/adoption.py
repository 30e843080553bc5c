"""A job whose supervisor was killed is taken up by whoever looks at it: it has a new supervisor, or its result."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any, Callable, Dict

from remote.payload.files.atomic import write_whole
from remote.payload.jobs.backends import run_detached
from remote.payload.jobs.evidence import ended_unseen
from remote.payload.jobs.state import observe_job
from remote.payload.output import follow
from remote.payload.output.job_folder import newest_job, run_root
from remote.payload.request.call import Call
from remote.protocol.jobs import JobState
from remote.protocol.layout import PAYLOAD, RunLayout

LOOK_EVERY_S = 1.0


def take_up(call: Call, run: RunLayout, number: int) -> None:
    """The job is watched to its end, has its result, or is lost: nothing tells how it ended."""
    look = observe_job(run, number)
    state = look.answer.state
    if look.orphans or (state is JobState.LOST and ended_unseen(run, run.job(number))):
        run_detached("adopt", _kept_payload(call), run.job(number), "")


def _kept_payload(call: Call) -> str:
    """A payload that is there as long as a supervisor needs it: one that came to look only goes with its agent."""
    folder = os.path.join(call.workdir, PAYLOAD)
    if os.path.dirname(call.payload) == folder:
        return call.payload
    with open(call.payload, "rb") as file:
        data = file.read()
    path = os.path.join(folder, f"{hashlib.sha256(data).hexdigest()}.pyz")
    if not os.path.exists(path):
        write_whole(path, data)
    return path


def follow_events(call: Call) -> Dict[str, Any]:
    """`output.follow.follow_events` until the job is over."""
    return follow.follow_events(call, _over(call))


def follow_log(call: Call) -> Dict[str, Any]:
    """`output.follow.follow_log` until the job is over."""
    return follow.follow_log(call, _over(call))


def _over(call: Call) -> Callable[[], bool]:
    """Whether the job that is followed has ended or is lost; asked often, it looks once a second."""
    run = RunLayout(run_root(call))
    number = int(call.args.get("job", 0)) or newest_job(run.root)
    looked_at = float("-inf")

    def over() -> bool:
        nonlocal looked_at
        if os.path.exists(run.job(number).result):
            return True
        if time.monotonic() - looked_at < LOOK_EVERY_S:
            return False
        looked_at = time.monotonic()
        take_up(call, run, number)
        return observe_job(run, number).answer.state is JobState.LOST

    return over
