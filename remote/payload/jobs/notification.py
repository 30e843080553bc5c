"""Report the end of a job with the command or the URL of `notify:` in the config."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import string
import subprocess
import sys
from typing import Dict

from remote.payload.files.records import read_record
from remote.protocol.jobs import JobResult, JobSpec, Progress, judge_state
from remote.protocol.layout import RunLayout
from remote.protocol.loss import mean_loss_text
from remote.protocol.values import dumps

DEADLINE_S = 30.0
MARKS = ("HALFSTEP_RUN_DIR", "HALFSTEP_JOB")
"""Variables by which processes of a job are recognised. The command must not inherit them."""


def send_notification(run: RunLayout, spec: JobSpec, result: JobResult, environment: Dict[str, str]) -> None:
    """Send the notification of a job that has ended. Errors are only written to the supervisor's log.

    `environment` is the job's environment, with its secrets. A command runs in this environment; in a URL, `$NAME` is
    replaced with the value of the variable.
    """
    if not spec.notify:
        return
    facts = end_of_job(run, result)
    target = string.Template(spec.notify).safe_substitute(environment)
    try:
        if target.startswith(("http://", "https://")):
            _post(target, facts)
        else:
            run_command(spec.notify, run.code, {**environment, **as_variables(facts)})
    except Exception as error:  # noqa: BLE001 - any error, without its traceback, which may show a secret
        print(f"notify failed: {type(error).__name__}", file=sys.stderr, flush=True)


def end_of_job(run: RunLayout, result: JobResult) -> Dict[str, str]:
    """Return run, host, state, step, steps, loss, exit, reason and a sentence about them.

    Unknown facts are left out.
    """
    progress = read_record(run.progress, Progress)
    state = "preempted" if result.preempted else judge_state(started=None, result=result, alive=False).value
    facts = {"run": os.path.basename(run.root), "host": socket.gethostname(), "state": state}
    message = f"{facts['run']} on {facts['host']}: {state}"
    if progress is not None:
        facts["step"] = str(progress.step)
        message += f" at step {progress.step}"
        if progress.steps:
            facts["steps"] = str(progress.steps)
            message += f" of {progress.steps}"
        if progress.loss is not None:
            facts["loss"] = f"{progress.loss:.6g}"
            message += f", {mean_loss_text(progress.loss)}"
    if result.reason:
        facts["reason"] = result.reason
        message += f" ({result.reason})"
    return {**facts, "exit": str(result.exit), "message": message}


def as_variables(facts: Dict[str, str]) -> Dict[str, str]:
    """Return the facts as environment variables, such as HALFSTEP_STATE."""
    return {f"HALFSTEP_{name.upper()}": value for name, value in facts.items()}


def _post(url: str, facts: Dict[str, str]) -> None:
    # Slack and Mattermost show `text`, Discord shows `content`.
    urllib_request = importlib.import_module(
        "urllib.request"
    )  # This import takes 20 ms, and only some supervisors need it.
    body = dumps({**facts, "text": facts["message"], "content": facts["message"]})
    request = urllib_request.Request(url, body, {"Content-Type": "application/json", "User-Agent": "halfstep"})
    with urllib_request.urlopen(request, timeout=DEADLINE_S):
        pass


def run_command(command: str, folder: str, environment: Dict[str, str], deadline_s: float = DEADLINE_S) -> None:
    """Run a shell command to its end. Raises TimeoutExpired after `deadline_s`, once all its processes are killed."""
    process = subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env={name: value for name, value in environment.items() if name not in MARKS},
        start_new_session=True,
    )
    try:
        process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise
