"""What an ended run left alive is ended: only processes that bear its mark, and only once its job is over."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, List

from remote.payload.jobs.state import judge_job, run_layout
from remote.payload.output.job_folder import newest_job
from remote.payload.processes.identity import Process, marked, read_process, send_signal
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState

GRACE_S = 10.0
LOOK_S = 0.05


def end_leftovers(call: Call) -> Dict[str, Any]:
    """The named processes of the run are gone. One that is not the run's is left alone and told as `spared`.

    Raises Refusal `busy` while a job of the run is at work, `os` where a process cannot be ended.
    """
    run = run_layout(call, call.args["project"], call.args["run"])
    number = newest_job(run)
    if number and judge_job(run, number).state is JobState.RUNNING:
        name = os.path.basename(run.root)
        raise Refusal(
            "busy", f"a job of {name} is still running", hint=f"pipeline stop {name}", exit_code=ExitCode.BUSY
        )
    wanted = set(call.args["pids"])
    ours = [process for process in marked(f"HALFSTEP_RUN_DIR={run.root}") if process.pid in wanted]
    grace = float(call.args.get("grace_s", GRACE_S))
    for number_of_signal, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, GRACE_S)):
        for process in _living(ours):
            send_signal(process, number_of_signal)
        deadline = time.monotonic() + patience
        while _living(ours) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
    left = _living(ours)
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise Refusal(
            "os", f"{pids} did not end, not even of SIGKILL: the driver may hold them", exit_code=ExitCode.GPU
        )
    return {"ended": sorted(p.pid for p in ours), "spared": sorted(wanted - {p.pid for p in ours})}


def _living(processes: List[Process]) -> List[Process]:
    """Those that are the very same ones still."""
    found = []
    for process in processes:
        now = read_process(process.pid)
        if now is not None and now.ticks == process.ticks and not now.dead:
            found.append(process)
    return found
