"""The backends that start a supervisor: a new session, systemd's user manager (survives a logout), or Slurm."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import subprocess
import time
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from remote.payload.files.atomic import make_private_folder
from remote.payload.files.records import read_record, write_record
from remote.payload.jobs import slurm
from remote.payload.jobs.records import Submitted
from remote.payload.probes.machine import lingers
from remote.payload.processes.launch import Launch, supervise_argv, write_launch
from remote.payload.processes.output import read_output
from remote.payload.processes.private_folder import secret_folder
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobSpec, Started
from remote.protocol.layout import JobLayout

SYSTEMD_WAIT_S = 20.0
SYSTEMD_RUN_DEADLINE_S = 15.0
BACKENDS = ("auto", "setsid", "systemd", "slurm")


def launch_job(payload: str, job: JobLayout, spec: JobSpec, request: StartRequest, user: str) -> None:
    """Start the job, or add it to Slurm's queue. Raises Refusal with the supervisor's output."""
    if request.backend not in BACKENDS:
        message = f"unknown job backend {request.backend!r}; choose one of {', '.join(BACKENDS)}"
        raise Refusal("usage", message, exit_code=ExitCode.USAGE)
    if request.backend == "slurm":
        if not request.hold:
            queue_job(payload, job, spec, request.secrets, request.slurm)
        return
    wanted = request.backend == "systemd"
    if (wanted or (request.backend == "auto" and lingers(user))) and _by_systemd(payload, job, spec, request):
        return
    launch = prepare_launch(job, Launch(request.secrets), secret_folder() or job.root)
    log = run_detached("detach", payload, job, launch)
    if not on_record(job):
        _remove_launch(launch)
        message = (
            f"the supervisor of {job.root} exited before it started the job: {log or 'another one is still exiting'}"
        )
        raise Refusal("not-started", message, where=job.root, hint="try again", exit_code=ExitCode.TEMPORARY)


def on_record(job: JobLayout) -> bool:
    """Return True if the job waits for its turn, runs, or has ended."""
    begun = read_record(job.supervisor, Started) is not None or os.path.exists(job.result)
    return begun or os.path.exists(job.queued)


def prepare_launch(job: JobLayout, launch: Launch, folder: str) -> str:
    """Return the path of a new launch file, or "" if `launch` is empty.

    Launch files of killed starts are removed.
    """
    remove_launches(job)
    if not launch.secrets and not launch.environment:
        return ""
    path = os.path.join(folder, _launch_stem(job) + secrets.token_hex(8))
    write_launch(path, launch)
    return path


def remove_launches(job: JobLayout) -> None:
    """Remove the job's launch files, which contain its secrets. The supervisor removes the file that it reads."""
    for folder in {secret_folder() or job.root, job.root}:
        for name in os.listdir(folder):
            if name.startswith(_launch_stem(job)):
                _remove_launch(os.path.join(folder, name))


def _launch_stem(job: JobLayout) -> str:
    return f"launch-{hashlib.sha256(os.fsencode(job.root)).hexdigest()[:16]}-"


def _remove_launch(launch: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(launch)


def run_detached(mode: str, payload: str, job: JobLayout, launch: str) -> str:
    """Start a supervisor. Return the end of its log once the job is on record or the supervisor has exited."""
    log = job.supervisor_log
    reader, writer = os.pipe()
    with open(log, "ab") as output:
        first = subprocess.Popen(
            supervise_argv(payload, mode, job.root, launch, writer),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(writer,),
            start_new_session=True,
            cwd="/",
        )
    os.close(writer)
    # The supervisor closes the other end when the job is on record. If the supervisor dies, the kernel closes that end.
    with os.fdopen(reader, "rb") as end:
        end.read()
    first.wait()
    return _read_tail(log)


def _read_tail(path: str) -> str:
    """Return the last 2000 bytes of a log, or "" if the log cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()[-2000:].decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _by_systemd(payload: str, job: JobLayout, spec: JobSpec, request: StartRequest) -> bool:
    """Start the job as a transient unit of systemd's user manager. Return False if that fails."""
    if shutil.which("systemd-run") is None:
        return False
    folder = secret_folder() or job.root
    environment = {**os.environ, "XDG_RUNTIME_DIR": os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")}
    # A unit starts with the manager's environment, so the launch file contains the environment of this process.
    launch = prepare_launch(job, Launch(request.secrets, environment), folder)
    command = [*systemd_argv(job, spec.grace_s), *supervise_argv(payload, "stay", job.root, launch, -1), "systemd"]
    if not _succeeds(command, environment):
        _remove_launch(launch)
        return False
    deadline = time.monotonic() + SYSTEMD_WAIT_S
    while not on_record(job):
        if time.monotonic() > deadline:
            _succeeds(["systemctl", "--user", "stop", slurm.unit_name(job)], environment)
            _remove_launch(launch)
            return on_record(job)
        time.sleep(0.02)
    return True


def systemd_argv(job: JobLayout, grace_s: float) -> List[str]:
    """Return the systemd-run command. Stopping the unit sends SIGTERM only to the supervisor (KillMode=mixed)."""
    properties = {
        "Type": "exec",
        "KillMode": "mixed",
        "OOMPolicy": "continue",
        "TimeoutStopSec": f"{grace_s + 60:.0f}",
    }
    options = [f"--property={name}={value}" for name, value in properties.items()]
    return ["systemd-run", "--user", "--quiet", "--collect", f"--unit={slurm.unit_name(job)}", *options, "--"]


def _succeeds(command: List[str], environment: Dict[str, str]) -> bool:
    return read_output(command, SYSTEMD_RUN_DEADLINE_S, environment) is not None


def queue_job(
    payload: str, job: JobLayout, spec: JobSpec, secrets_by_name: Dict[str, str], options: Sequence[str]
) -> None:
    """Submit the job to Slurm, unless it is already in the queue, and record the job's number in Slurm."""
    name = slurm.unit_name(job)
    number = slurm.find_by_name(name)
    if not number:
        # The compute node shares no memory with this one, so the 0600 launch file is in the job's folder.
        launch = prepare_launch(job, Launch(secrets_by_name), job.root)
        argv = [*supervise_argv(payload, "stay", job.root, launch, -1), "slurm"]
        batch = slurm.render_script(name, job.supervisor_log, argv, options, spec.grace_s)
        number = _submit(name, {job: Submitted("", time.time(), name)}, batch, job.root, secrets_by_name)
    write_record(job.submitted, Submitted(number, time.time()))


def _submit(
    name: str, pending: Mapping[JobLayout, Submitted], batch: slurm.Batch, folder: str, secrets_by_name: Iterable[str]
) -> str:
    """Return the number of the submitted job. The `pending` records are written first.

    sbatch may fail although the controller has queued the job, which then has its name. If it certainly has not, the
    launch files are removed.
    """
    for job, record in pending.items():
        write_record(job.submitted, record)
    try:
        return slurm.submit(batch, folder, secrets_by_name)
    except Refusal:
        number = slurm.find_by_name(name)
        if number:
            return number
        for job in pending:
            remove_launches(job)
            os.unlink(job.submitted)
        raise


def queue_array(
    payload: str, folder: str, jobs: Sequence[Tuple[JobLayout, Dict[str, str]]], options: Sequence[str], grace_s: float
) -> None:
    """Submit the jobs as one array with these sbatch options, and record each task's job number.

    A link to the log of each task is created in `folder`. If sbatch's answer to an earlier submission was lost, the
    array is found by its name.
    """
    roots = "\n".join(job.root for job, _ in jobs)
    name = f"halfstep-array-{hashlib.sha256(os.fsencode(roots)).hexdigest()[:16]}"
    number = slurm.find_by_name(name)
    if not number:
        number = _submit_array(payload, name, os.path.join(folder, name), jobs, options, grace_s)
    for task, (job, _) in enumerate(jobs):
        write_record(job.submitted, Submitted(f"{number}_{task}", time.time()))


def _submit_array(
    payload: str,
    name: str,
    folder: str,
    jobs: Sequence[Tuple[JobLayout, Dict[str, str]]],
    options: Sequence[str],
    grace_s: float,
) -> str:
    make_private_folder(folder)
    launches = [prepare_launch(job, Launch(secrets_by_name), job.root) for job, secrets_by_name in jobs]
    argvs = []
    for task, ((job, _), launch) in enumerate(zip(jobs, launches)):
        argvs.append([*supervise_argv(payload, "stay", job.root, launch, -1), "slurm"])
        # The name of a task's log can contain the task's number, but not the folder of its run.
        log = os.path.join(folder, f"{task}.log")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(log)
        os.symlink(job.supervisor_log, log)
    names = {name for _, secrets_by_name in jobs for name in secrets_by_name}
    pending = {job: Submitted(f"_{task}", time.time(), name) for task, (job, _) in enumerate(jobs)}
    return _submit(name, pending, slurm.render_array(name, folder, argvs, options, grace_s), folder, names)
