"""Slurm: the batch script that becomes the supervisor, and queries of the queue."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import subprocess
from dataclasses import replace
from typing import Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from remote.payload.files.records import read_record
from remote.payload.jobs.records import Submitted
from remote.payload.output.job_folder import newest_job
from remote.payload.processes.command_jobs import CommandJobs
from remote.payload.processes.output import read_output
from remote.payload.processes.slurm_queue import SQUEUE, WAITING, is_living, without_filters
from remote.payload.processes.variables import expand_variables
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobSpec
from remote.protocol.layout import JobLayout, RunLayout
from remote.protocol.slurm import SBATCH_OPTION

DEADLINE_S = 30.0
QUEUE_DEADLINE_S = 10.0
GRACE_MARGIN_S = 30
SLURM_POLL_S = 2.0
LEFT_OUT = ("SBATCH_ARRAY_INX", "SBATCH_WAIT", "SBATCH_ERROR", "SBATCH_INPUT")
"""Variables with which sbatch submits an array, waits for the end of the job, or redirects a part of its output."""
KEPT_VARIABLES = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_CONF_SERVER")
CONTROLLER_AWAY = r"[Tt]imed out|Unable to contact|Connection refused|Zero Bytes were transmitted"
_ENDED: Dict[str, str] = {}


def read_submitted(job: JobLayout) -> Optional[Submitted]:
    """Return the job's number in Slurm, or None if it was not submitted.

    If the answer of sbatch was lost, the job is found in the queue by its name. If squeue fails, the number is missing,
    and `queue_state` is UNKNOWN.
    """
    known = read_record(job.submitted, Submitted)
    if known is None or not known.name:
        return known
    try:
        number = find_by_name(known.name)
    except Refusal:
        return known
    return replace(known, slurm_job=number + known.slurm_job) if number else None


def unit_name(job: JobLayout) -> str:
    """Return the readable name of a job's systemd unit or Slurm job, which is unique on this machine."""
    run = os.path.basename(os.path.dirname(os.path.dirname(job.root)))
    return f"halfstep-{run}-{os.path.basename(job.root)}-{hashlib.sha256(os.fsencode(job.root)).hexdigest()[:8]}"


def own_jobs(run: RunLayout) -> FrozenSet[str]:
    """Return the names and numbers of the jobs in Slurm in which halfstep runs the command, and the next job's name.

    The number of a job is recorded only when sbatch has returned, which may be after the job has begun.
    """
    jobs = [run.job(number) for number in range(1, newest_job(run) + 2)]
    submitted = (read_record(job.submitted, Submitted) for job in jobs)
    return frozenset([*map(unit_name, jobs), *(one.slurm_job for one in submitted if one is not None)])


def jobs_of_command(run: RunLayout) -> CommandJobs:
    """Return the jobs that the command of the run has submitted itself. A run without a job has none."""
    number = newest_job(run)
    spec = read_record(run.job(number).spec, JobSpec) if number else None
    environment = {**os.environ, **expand_variables(spec.environment)} if spec is not None else {}
    return CommandJobs(run.root, environment, own_jobs(run))


def poll_interval_s(job: JobLayout, usual_s: float) -> float:
    """Return the seconds between two checks of a job: at least 2 under Slurm, to limit the load on its controller."""
    return SLURM_POLL_S if read_submitted(job) is not None else usual_s


class Batch(NamedTuple):
    """A batch script, and the options of sbatch with which it is submitted.

    Variables of a site such as SBATCH_TIMELIMIT override `#SBATCH` lines in the script, but not options.
    """

    options: Tuple[str, ...]
    script: str


def render_script(name: str, output: str, argv: Sequence[str], options: Sequence[str], grace_s: float) -> Batch:
    """Return the batch script of a job. Slurm sends SIGUSR1 before its time limit, early enough to save a checkpoint.

    `exec` makes the supervisor the batch step itself, so that it receives signals to the batch step. Raises Refusal for
    an option that is not of the form --name=value.
    """
    return Batch(_options(name, _escape(output), options, grace_s), f"#!/bin/sh\nexec {shlex.join(argv)}\n")


def render_array(
    name: str, folder: str, argvs: Sequence[Sequence[str]], options: Sequence[str], grace_s: float
) -> Batch:
    """Return the batch script of an array.

    Task N becomes the supervisor `argvs[N]` and writes its output to `folder`/N.log.
    """
    # The given options are last, so that one without its value cannot take one of these as its value.
    tasks = [f"--array=0-{len(argvs) - 1}", *options]
    cases = [f"{number}) exec {shlex.join(argv)} ;;" for number, argv in enumerate(argvs)]
    lines = ("#!/bin/sh", 'case "$SLURM_ARRAY_TASK_ID" in', *cases, "esac", "")
    return Batch(_options(name, f"{_escape(folder)}/%a.log", tasks, grace_s), "\n".join(lines))


def _options(name: str, output: str, options: Sequence[str], grace_s: float) -> Tuple[str, ...]:
    for option in options:
        if not re.fullmatch(SBATCH_OPTION, option):
            message = f"{option!r} is not an sbatch option; write it as --name=value"
            raise Refusal("usage", message, where="slurm", exit_code=ExitCode.USAGE)
    signal = f"--signal=B:USR1@{int(grace_s) + GRACE_MARGIN_S}"
    return (f"--job-name={name}", f"--output={output}", signal, "--no-requeue", *options)


def _escape(path: str) -> str:
    # sbatch(1), "filename pattern": %% is a percent sign, while patterns such as %j are replaced.
    return path.replace("%", "%%")


def submit(batch: Batch, folder: str, secrets: Iterable[str] = ()) -> str:
    """Submit the batch script and return its job number. Raises Refusal with Slurm's own message.

    The variables in `secrets` are left out, because Slurm stores the environment of a job on its controller's disk.
    """
    argv = ["sbatch", "--parsable", f"--chdir={folder}", *batch.options]
    printed = _run(argv, stdin=batch.script, without={*secrets, *LEFT_OUT})
    # With --parsable, sbatch prints NUMBER or NUMBER;CLUSTER. A site's wrapper may print lines of its own.
    numbers = re.findall(r"^(\d+)(?:;.*)?$", printed, re.MULTILINE)
    if not numbers:
        message = f"no job number in the answer of sbatch: {printed.strip()[-200:]!r}"
        raise Refusal("slurm", message, where="slurm", exit_code=ExitCode.ENVIRONMENT)
    return str(numbers[-1])


def find_by_name(name: str) -> str:
    """Return the number of this user's job or array with the name `name`, or "" if there is no such job.

    Also finds a submission whose answer from sbatch was lost.
    """
    found = _run([*SQUEUE, "--me", f"--name={name}", "--format=%F"], without=_filters())
    return found.strip().partition("\n")[0]


def queue_state(number: str) -> str:
    """Return the job's state and reason as squeue prints them, "" if it has left the queue, "UNKNOWN" if squeue failed.

    An unreachable controller is no evidence that the job has ended.
    """
    if not number[:1].isdigit():
        return "UNKNOWN"
    try:
        done = subprocess.run(
            [*SQUEUE, f"--jobs={number}", "--format=%T %r"],
            env=without_filters(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=QUEUE_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "UNKNOWN"
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace").strip()
    return "" if b"Invalid job id" in done.stderr else "UNKNOWN"


def end_state(number: str) -> str:
    """Return the state in which a job left the queue, such as TIMEOUT, or "" if it is unknown.

    Slurm's accounting, if enabled, keeps the state for months, but may receive it late. The controller keeps the state
    for some minutes.
    """
    if number not in _ENDED:
        sacct = ["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={number}", "--format=State"]
        state = _final(_answer(sacct).split("\n")) or _final(_states(_answer(["scontrol", "show", "job", number])))
        if not state:
            return ""
        _ENDED[number] = state
    return _ENDED[number]


def _final(states: Sequence[str]) -> str:
    """Return the last state, which is that of the newest start, or "" if it is not a final state of Slurm."""
    # A state may be printed as "CANCELLED by 1000", or as "CANCELLED+" if the column is too narrow.
    state = states[-1].partition(" ")[0].rstrip("+") if states else ""
    return state if re.fullmatch(r"[A-Z_]{3,20}", state) and not is_living(state) else ""


def _states(records: str) -> List[str]:
    return re.findall(r"\bJobState=(\S+)", records)


def _answer(argv: List[str]) -> str:
    """Return the output of a Slurm command, or "" if it is not installed, fails, or does not answer."""
    return (read_output(argv, QUEUE_DEADLINE_S) or "").strip()


def end(number: str, beat: Callable[[], None]) -> None:
    """Cancel a waiting job, or send SIGTERM to the supervisor of a running job.

    Does nothing if the controller does not answer: a supervisor also reads the request to stop from its file. `beat` is
    called before each request, which may take DEADLINE_S seconds.
    """
    beat()
    # A plain scancel would kill a running job without its grace period. With --state=PENDING, Slurm 22.05 cancels every
    # waiting task of an array.
    waits = queue_state(number).split(" ", maxsplit=1)[0] in WAITING
    beat()
    with contextlib.suppress(Refusal):
        _run(["scancel", *([] if waits else ["--signal=TERM", "--batch"]), number], without=_filters())


def kill(number: str) -> None:
    """Cancel the job, which kills its remaining processes. Raises Refusal if Slurm does not confirm it."""
    if not number[:1].isdigit():
        message = "squeue does not answer, so the job cannot be cancelled"
        raise Refusal("slurm", message, where="slurm", hint="try again later", exit_code=ExitCode.TEMPORARY)
    _run(["scancel", number], without=_filters())


def _filters() -> Iterable[str]:
    """Return the names of the variables with which Slurm's commands leave out jobs, or ask before they cancel one."""
    return set(os.environ).difference(without_filters(os.environ))


def _environment() -> Dict[str, str]:
    """Return the environment of this process without the variables of its own Slurm job, which sbatch would pass on."""
    if "SLURM_JOB_ID" not in os.environ:
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES or not name.startswith("SLURM")}


def _run(argv: List[str], stdin: str = "", without: Iterable[str] = ()) -> str:
    environment = {name: value for name, value in _environment().items() if name not in set(without)}
    try:
        done = subprocess.run(
            argv, input=stdin.encode(), capture_output=True, timeout=DEADLINE_S, check=False, env=environment
        )
    except FileNotFoundError:
        raise Refusal(
            "slurm", f"{argv[0]} is not installed on this host", where="scheduler", exit_code=ExitCode.ENVIRONMENT
        )
    except subprocess.TimeoutExpired:
        raise Refusal("slurm", f"{argv[0]} did not answer in {DEADLINE_S:.0f} s", exit_code=ExitCode.TEMPORARY)
    if done.returncode != 0:
        message = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
        away = re.search(CONTROLLER_AWAY, message)
        code = ExitCode.TEMPORARY if away is not None else ExitCode.ENVIRONMENT
        raise Refusal("slurm", f"{argv[0]}: {message}", where="slurm", exit_code=code)
    return done.stdout.decode("utf-8", "replace")
