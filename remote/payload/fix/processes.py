"""End the processes that a finished run left running. The environment of a process shows to which run it belongs."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, List

from remote.payload.jobs.state import judge_job, run_layout
from remote.payload.output.job_folder import newest_job
from remote.payload.processes.identity import Process, read_process, send_signal
from remote.payload.processes.marked import marked_processes
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState
from remote.protocol.shell import shell_command

GRACE_S = 10.0
POLL_S = 0.05


def end_leftovers(call: Call) -> Dict[str, Any]:
    """End the listed processes of the run.

    Listed processes that do not belong to the run are not signalled, but returned as `spared`.

    Raises Refusal `busy` while a job of the run is running, `os` if a process cannot be ended.
    """
    run = run_layout(call, call.args["project"], call.args["run"])
    number = newest_job(run)
    if number and judge_job(run, number).state is JobState.RUNNING:
        name = os.path.basename(run.root)
        raise Refusal(
            "busy",
            f"a job of {name} is still running",
            hint=shell_command("pipeline stop {}", name),
            exit_code=ExitCode.BUSY,
        )
    requested = set(call.args["pids"])
    ours = [process for process in marked_processes(f"HALFSTEP_RUN_DIR={run.root}") if process.pid in requested]
    left = _end(ours, float(call.args.get("grace_s", GRACE_S)))
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise Refusal(
            "os", f"processes {pids} survived SIGKILL: they may be stuck in the GPU driver", exit_code=ExitCode.GPU
        )
    return {"ended": sorted(p.pid for p in ours), "spared": sorted(requested - {p.pid for p in ours})}


def _end(processes: List[Process], grace_s: float) -> List[Process]:
    """Send SIGTERM, and SIGKILL `grace_s` seconds later. Return the processes that are still alive."""
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, GRACE_S)):
        for process in _living(processes):
            send_signal(process, number)
        deadline = time.monotonic() + wait_s
        while _living(processes) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    return _living(processes)


def _living(processes: List[Process]) -> List[Process]:
    """Return the processes that are still alive. The start time shows if another process has got the pid."""
    living = []
    for process in processes:
        now = read_process(process.pid)
        if now is not None and now.ticks == process.ticks and not now.dead:
            living.append(process)
    return living
