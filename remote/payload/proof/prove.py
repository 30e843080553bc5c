"""`payload.pyz prove`: read a request from stdin, run the proof, write the report to stdout.

The request is the first line of stdin. The end of stdin means that the client has disconnected, and ends the proof at
once. When this process exits, every process that it started has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from remote.payload.files.data_links import place_data
from remote.payload.processes.command_jobs import CommandJobs
from remote.payload.processes.ending import Ending
from remote.payload.processes.identity import Descendants, Process, descendants, read_process
from remote.payload.processes.launch import (
    Launch,
    job_argv,
    job_environment,
    remove_rendezvous,
    renew_rendezvous,
    start_gated,
)
from remote.payload.processes.marked import Marked, united
from remote.payload.processes.subreaper import become_subreaper
from remote.payload.proof.evidence import Evidence, Ranks
from remote.payload.proof.hooks.step import Step
from remote.payload.proof.injection import python_path, write_hooks
from remote.payload.proof.judge import judge_proof, summarize_step
from remote.payload.proof.memory import read_memory_plan
from remote.payload.proof.provenance import read_texts
from remote.payload.proof.pythons import Pythons
from remote.payload.proof.scratch import Scratch, open_scratch
from remote.payload.proof.unhooked import has_key
from remote.payload.request.refusal import refusal_to_json
from remote.protocol.jobs import JobSpec
from remote.protocol.layout import JobLayout
from remote.protocol.proof import ProofRequest
from remote.protocol.values import decode, dumps

TICK_S = 0.05
STRAGGLERS_S = 60.0
AFTER_CRASH_S = 15.0
TAIL_BYTES = 32768


def main(workdir: str) -> int:
    """Write lines of JSON to stdout: {"step": ...} for each step, then {"report": ...} or {"error": ...}."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request = decode(ProofRequest, json.loads(_read_line(sys.stdin.fileno())))
    become_subreaper()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with open_scratch(workdir, request.project, request.source) as scratch:
            last: Dict[str, Any] = {"report": Runner(request, scratch, out).run()}
    except Exception as error:  # noqa: BLE001 - every error becomes a message to the agent
        last = {"error": refusal_to_json(error)}
    _send(out, last)
    return 0


def _read_line(descriptor: int) -> bytes:
    """Read one line and no byte more, because select is used to wait for the following data."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            raise EOFError("stdin ended before the request")
        line += byte
    return bytes(line)


def _send(out: Any, event: Dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        out.write(dumps(event) + b"\n")
        out.flush()


class Abandoned(Exception):
    """The client has disconnected."""


class Runner:
    """Runs the command with the hooks until its ranks have reported or the command has ended."""

    def __init__(self, request: ProofRequest, scratch: Scratch, out: Any) -> None:
        self._request = request
        self._scratch = scratch
        self._out = out
        self._status: Optional[int] = None
        self._sent_bytes = 0
        self._first_done: Optional[float] = None
        self._crashed: Optional[float] = None
        self._pythons = Pythons(scratch.hooks, scratch.reports)
        self._signs = has_key(request.environment)
        self._running = Descendants(os.getpid())
        self._marked = Marked(f"HALFSTEP_PROOF={scratch.reports}")
        self._ranks = Ranks(scratch.reports)
        self._command_jobs = CommandJobs(scratch.root, self._environment(), {os.environ.get("SLURM_JOB_ID", "")})
        self._submitted: Tuple[int, ...] = ()

    def run(self) -> Any:
        """Return the report, after every process of the command has ended."""
        began = time.monotonic()
        write_hooks(self._scratch.hooks)
        place_data(self._request.data, self._scratch.run.code)
        renew_rendezvous(self._job())
        gated = start_gated(self._argv(), self._scratch.run.code, self._environment(), self._scratch.output)
        timed_out = False
        try:
            gated.open_gate()
            while not self._over(gated.pid):
                if time.monotonic() - began > self._request.deadline_s:
                    timed_out = True
                    break
                self._send_steps()
                self._wait()
        finally:
            self._end_all()
            remove_rendezvous(self._job())
        self._send_steps()
        ranks = self._ranks.read()
        evidence = Evidence(
            self._request,
            ranks,
            exit=_exit(self._status),
            timed_out=timed_out,
            wall_s=time.monotonic() - began,
            output_tail=self._tail(),
            pythons=self._pythons.processes(),
            texts=read_texts(self._scratch.run.code, ranks),
            memory=read_memory_plan(self._scratch.run.memory),
            slurm_jobs=self._submitted,
        )
        return judge_proof(evidence)

    def _argv(self) -> List[str]:
        return job_argv(self._spec(), self._scratch.run, self._job(), os.path.abspath(sys.argv[0]))

    def _job(self) -> JobLayout:
        return JobLayout(os.path.join(self._scratch.run.root, "jobs", "0"))

    def _spec(self) -> JobSpec:
        return JobSpec(
            "proof",
            0,
            "",
            self._request.argv,
            environment=self._request.environment,
            secrets=tuple(self._request.secrets),
            steps=self._request.run_steps,
        )

    def _environment(self) -> Dict[str, str]:
        """Return the job's environment, with every cache and temporary folder inside the scratch folder."""
        environment = job_environment(self._spec(), self._scratch.run, Launch(dict(self._request.secrets), {}))
        environment.pop("HALFSTEP_WATCH", None)
        own = read_process(os.getpid())
        inside = os.path.join(self._scratch.root, "caches")
        return {
            **environment,
            "PYTHONPATH": python_path(self._scratch.hooks, environment),
            "HALFSTEP_PROOF": self._scratch.reports,
            "HALFSTEP_PROJECT": self._scratch.run.code,
            "HALFSTEP_PROOF_STEPS": str(self._request.steps),
            "HALFSTEP_PROOF_ATTEMPTS": str(self._request.attempts),
            "HALFSTEP_PROOF_RUNNER": f"{os.getpid()}:{own.ticks if own is not None else ''}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": self._scratch.temporary,
            "TORCHINDUCTOR_CACHE_DIR": f"{inside}/inductor",
            "TRITON_CACHE_DIR": f"{inside}/triton",
            "MPLCONFIGDIR": f"{inside}/matplotlib",
            "WANDB_MODE": "offline",
            "WANDB_DIR": inside,
            "MLFLOW_TRACKING_URI": f"file://{inside}/mlflow",
            "TRACKIO_DIR": f"{inside}/trackio",
        }

    def _over(self, leader: int) -> bool:
        """Return True if the command has ended, if every rank has reported, or if no further report can be expected."""
        self._reap(leader)
        ranks = self._ranks.read()
        states = [rank.state for rank in ranks]
        now = time.monotonic()
        if self._status is not None and not descendants(os.getpid()):
            return True
        if "exception" in states:
            self._crashed = self._crashed or now
            return now - self._crashed > AFTER_CRASH_S
        done = states.count("done")
        if done:
            self._first_done = self._first_done or now
            return done >= ranks[0].world or now - self._first_done > STRAGGLERS_S
        self._pythons.look(self._processes, now)
        return self._pythons.is_unhooked(now) or (self._signs and self._pythons.saw_unsigned)

    def _processes(self) -> List[Process]:
        """Return the processes of the command, also those that a service such as Slurm has started."""
        return united(self._running.read(), self._marked.read())

    def _reap(self, leader: int) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == leader:
                self._status = status
            if pid == 0:
                return

    def _wait(self) -> None:
        readable, _, _ = select.select([sys.stdin], [], [], TICK_S)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            raise Abandoned("the client of this proof has disconnected")

    def _end_all(self) -> None:
        """Kill every process without letting it save, because a trainer's clean exit may take minutes."""
        ending = Ending(self._processes, time.monotonic(), 0.0)
        while not ending.advance(time.monotonic()):
            self._reap(-1)
            time.sleep(0.01)
        self._submitted = self._command_jobs.submitted() or ()
        self._command_jobs.cancel()

    def _send_steps(self) -> None:
        with contextlib.suppress(OSError), open(os.path.join(self._scratch.reports, "steps.jsonl"), "rb") as file:
            file.seek(self._sent_bytes)
            for line in file:
                if line.endswith(b"\n"):
                    self._sent_bytes += len(line)
                    _send(self._out, {"step": summarize_step(decode(Step, json.loads(line)))})

    def _tail(self) -> str:
        with contextlib.suppress(OSError), open(self._scratch.output, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
        return ""


def _exit(status: Optional[int]) -> Optional[int]:
    """Return the command's exit status, 128 + signal if a signal ended it, or None if it was still running."""
    if status is None:
        return None
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
