"""The same supervisor under Slurm: a batch script that becomes it, and what the queue knows of it."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from typing import List, Optional, Sequence

from remote.payload.files.records import read_record
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.layout import JobLayout

DEADLINE_S = 30.0
LOOK_DEADLINE_S = 10.0
GRACE_MARGIN_S = 30
OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*(=[^\n\r]*)?")
LIVING = (
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "SUSPENDED",
    "STOPPED",
    "REQUEUED",
    "RESIZING",
    "SIGNALING",
)


@dataclass(frozen=True)
class Submitted:
    """A job that is in Slurm's hands; written as soon as it has a number there."""

    slurm_job: str
    at_unix: float = 0.0


def submitted_path(job: JobLayout) -> str:
    return f"{job.root}/submitted.json"


def read_submitted(job: JobLayout) -> Optional[Submitted]:
    """What Slurm was given for that job, or None where it was not."""
    return read_record(submitted_path(job), Submitted)


def render_script(name: str, output: str, argv: Sequence[str], options: Sequence[str], grace_s: float) -> str:
    """The batch script. Slurm's own time limit comes as a SIGTERM early enough to save a checkpoint.

    `exec` makes the supervisor the batch step itself, so that signals to the batch step reach it. Raises Refusal where
    an option could begin a line of its own.
    """
    for option in options:
        if not OPTION.fullmatch(option):
            words = f"{option!r} is no option of sbatch: write it as --name=value"
            raise Refusal("usage", words, where="slurm", exit_code=ExitCode.USAGE)
    ours = [
        f"--job-name={name}",
        f"--output={_escape(output)}",
        f"--signal=B:TERM@{int(grace_s) + GRACE_MARGIN_S}",
        "--no-requeue",
    ]
    lines = ["#!/bin/sh", *(f"#SBATCH {_quoted(option)}" for option in [*ours, *options])]
    return "\n".join([*lines, f"exec {shlex.join(argv)}"]) + "\n"


def _escape(path: str) -> str:
    # sbatch(1), "filename pattern": %% is a percent sign, while %j and the like are replaced.
    return path.replace("%", "%%")


def _quoted(option: str) -> str:
    return shlex.quote(option) if re.search(r"[\s\"'#]", option) else option


def submit(script: str, folder: str) -> str:
    """The number Slurm gave the script. Raises Refusal with Slurm's own words."""
    return _run(["sbatch", "--parsable", f"--chdir={folder}"], stdin=script).strip().partition(";")[0]


def find_by_name(name: str) -> str:
    """The number of our job of that name in the queue: it was submitted, and only its number was lost. "" for none."""
    return _run(["squeue", "--noheader", "--me", f"--name={name}", "--format=%i"]).strip().partition("\n")[0]


def queue_state(number: str) -> str:
    """What the queue calls the job's state now; "" where it no longer knows the job, "UNKNOWN" where it did not answer.

    Only an answer is evidence: a controller that is down says nothing about the job.
    """
    try:
        done = subprocess.run(
            ["squeue", "--noheader", f"--jobs={number}", "--format=%T %r"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LOOK_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "UNKNOWN"
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace").strip()
    return "" if b"Invalid job id" in done.stderr else "UNKNOWN"


def is_living(state: str) -> bool:
    """That word of the queue's means that the job is not over, or that Slurm cannot say."""
    return state == "UNKNOWN" or state.split(" ", maxsplit=1)[0] in LIVING


def end(number: str) -> None:
    """A waiting job has left the queue; a running one's supervisor has its SIGTERM."""
    if queue_state(number).startswith("RUNNING"):
        _run(["scancel", "--signal=TERM", "--batch", number])
    else:
        _run(["scancel", number])


def kill(number: str) -> None:
    """Whatever was left of it is being killed."""
    _run(["scancel", number])


def _run(argv: List[str], stdin: str = "") -> str:
    try:
        done = subprocess.run(argv, input=stdin.encode(), capture_output=True, timeout=DEADLINE_S, check=False)
    except FileNotFoundError:
        raise Refusal("slurm", f"there is no {argv[0]} on this host", where="scheduler", exit_code=ExitCode.ENVIRONMENT)
    except subprocess.TimeoutExpired:
        raise Refusal("slurm", f"{argv[0]} did not answer in {DEADLINE_S:.0f} s", exit_code=ExitCode.TEMPORARY)
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip() or f"ended with {done.returncode}"
        raise Refusal("slurm", f"{argv[0]}: {words}", where="slurm", exit_code=ExitCode.ENVIRONMENT)
    return done.stdout.decode("utf-8", "replace")
