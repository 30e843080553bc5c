"""Adoption: start a new supervisor for a job whose supervisor was killed, or record its result if the job has ended."""

from __future__ import annotations

import hashlib
import os

from remote.payload.files.atomic import write_atomic
from remote.payload.jobs.evidence import can_judge_unsupervised
from remote.payload.jobs.state import observe_job
from remote.payload.jobs.supervisor_start import run_detached
from remote.payload.request.call import Call
from remote.protocol.jobs import JobState
from remote.protocol.layout import PAYLOAD, RunLayout


def ensure_supervised(call: Call, run: RunLayout, number: int) -> None:
    """Start a supervisor for a job that has none, if the job still runs or its end can be judged."""
    observed = observe_job(run, number)
    state = observed.answer.state
    if observed.orphans or (state is JobState.LOST and can_judge_unsupervised(run, run.job(number))):
        run_detached("adopt", _lasting_payload(call), run.job(number), "")


def _lasting_payload(call: Call) -> str:
    """Return the path of a payload that outlives this agent.

    A supervisor imports modules from the payload as long as it runs.
    """
    folder = os.path.join(call.workdir, PAYLOAD)
    if os.path.dirname(call.payload) == folder:
        return call.payload
    with open(call.payload, "rb") as file:
        data = file.read()
    path = os.path.join(folder, f"{hashlib.sha256(data).hexdigest()}.pyz")
    if not os.path.exists(path):
        write_atomic(path, data)
    return path
