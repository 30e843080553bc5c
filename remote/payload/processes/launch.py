"""Start a job's first process from its spec. The process waits until its pid is on record."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import signal
import socket
import sys
from typing import Callable, Dict, List, NoReturn, Sequence, Set

from remote.payload.processes.private_folder import secret_folder
from remote.payload.processes.variables import expand_variables
from remote.protocol.dataclass import dataclass, field
from remote.protocol.jobs import JobSpec
from remote.protocol.layout import JobLayout, RunLayout

PLACEHOLDER = re.compile(r"\{(run_dir|output_dir|tensorboard_dir|job_dir|resume_from|payload|free_port|rendezvous)\}")
CANNOT_RUN = 127
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Launch:
    """Secret values for the supervisor, and an environment if the supervisor does not inherit one."""

    secrets: Dict[str, str] = field(default_factory=dict)
    environment: Dict[str, str] = field(default_factory=dict)


def write_launch(path: str, launch: Launch) -> None:
    """Create the file with mode 0600. Raises FileExistsError if it exists."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump({"secrets": launch.secrets, "environment": launch.environment}, file)


def take_launch(path: str) -> Launch:
    """Read the launch file and remove it. Return an empty Launch for an empty path.

    Raises PermissionError if other users can read it.
    """
    if not path:
        return Launch()
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, encoding="utf-8", errors="surrogateescape") as file:
        status = os.fstat(descriptor)
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(errno.EPERM, "not this user's own file of mode 0600", path)
        data = json.load(file)
    os.unlink(path)
    return Launch(data["secrets"], data["environment"])


def job_environment(spec: JobSpec, run: RunLayout, launch: Launch) -> Dict[str, str]:
    """Return the training's environment: variables of the host, of halfstep and of the spec, and its secrets."""
    ours = {
        "HALFSTEP_RUN_DIR": run.root,
        "HALFSTEP_JOB": str(spec.number),
        "HALFSTEP_OUTPUT_DIR": run.checkpoints,
        "HALFSTEP_TENSORBOARD_DIR": run.tensorboard,
        "TENSORBOARD_LOGGING_DIR": run.tensorboard,
        "HALFSTEP_RESUME_FROM": spec.resume_from,
        "PYTHONUNBUFFERED": "1",
        # By default torchrun kills its workers 30 s after a SIGTERM. Here, the workers get the job's grace period to
        # save a checkpoint.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(1, int(spec.grace_s))),
        # torchrun's default prefix contains the rank on this host, which is not unique across hosts.
        "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[rank${rank}]:",
    }
    if spec.steps is not None:
        ours["HALFSTEP_STEPS"] = str(spec.steps)
    secrets = {name: launch.secrets[name] for name in spec.secrets if name in launch.secrets}
    configured = expand_variables(spec.environment)
    if any("{free_port}" in value for value in configured.values()):
        port = str(free_port())
        configured = {name: value.replace("{free_port}", port) for name, value in configured.items()}
    private = rendezvous_file(run.job(spec.number))
    # The hooks of the training read these two variables. Processes on other hosts do not have the key.
    ours["HALFSTEP_KEY_FILE"] = f"{private}-key" if spec.hosts == 1 else ""
    if any("{rendezvous}" in word for word in spec.argv):
        ours["HALFSTEP_STORE"] = f"{private}-store"
        # Otherwise torchrun opens a store at a port, which no process uses.
        ours["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    # torch runs code from this folder. Its default is in /tmp, where another user can create the folder first.
    compiled = {"TORCHINDUCTOR_CACHE_DIR": f"{run.root}/inductor"}
    return {**compiled, **(launch.environment or dict(os.environ)), **ours, **configured, **secrets}


def job_argv(spec: JobSpec, run: RunLayout, job: JobLayout, payload: str) -> List[str]:
    """Return the command with its placeholders replaced. Other braces are kept."""
    values = {
        "run_dir": run.root,
        "output_dir": run.checkpoints,
        "tensorboard_dir": run.tensorboard,
        "job_dir": job.root,
        "resume_from": spec.resume_from,
        "payload": payload,
        "rendezvous": rendezvous_file(job),
    }
    if any("{free_port}" in word for word in spec.argv):
        values["free_port"] = str(free_port())
    return [PLACEHOLDER.sub(lambda match: values[match.group(1)], word) for word in spec.argv]


def rendezvous_file(job: JobLayout) -> str:
    """Return the path of the file through which the processes of a job on one host find each other.

    torch unpickles the file's content, so other users must not be able to write to it. A port would accept their data.
    The file is in memory, because torch locks it with flock(2), which some network file systems do not support.
    """
    digest = hashlib.sha256(os.fsencode(job.root)).hexdigest()[:16]
    return os.path.join(secret_folder() or job.root, f"rendezvous-{digest}")


def remove_rendezvous(job: JobLayout) -> None:
    """Remove the rendezvous file of a job that has ended, with the stores of its process groups and its key."""
    own = rendezvous_file(job)
    folder, name = os.path.split(own)
    # The folder may be missing, and the processes of the job may remove their stores at the same time.
    with contextlib.suppress(FileNotFoundError):
        for other in os.listdir(folder):
            if other == name or other.startswith(f"{name}-"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, other))


def renew_rendezvous(job: JobLayout) -> None:
    """Remove what an earlier start of the job left, and create the key with which its processes sign objects.

    If the file system is full, as any user can make it in /dev/shm, there is no key. A job of one process needs none,
    and the processes of another job end with a message that names the file.
    """
    remove_rendezvous(job)
    path = f"{rendezvous_file(job)}-key"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(32))
    except OSError as error:
        if error.errno not in FULL:
            raise
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def free_port() -> int:
    """Return a free TCP port of this machine."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Gated:
    """A process that runs the command after `open_gate`. The process exits if the gate is closed before."""

    pid: int
    gate: int

    def open_gate(self) -> None:
        os.write(self.gate, b"g")
        os.close(self.gate)


def start_gated(
    argv: Sequence[str], cwd: str, environment: Dict[str, str], output: str, before: Callable[[], None] = lambda: None
) -> Gated:
    """Fork a child in its own session that waits at the gate, then runs `argv` with its output in the file `output`.

    `before` is called in the child once the gate is open. It may fork, and returns in the process that runs `argv`.
    Because of the gate, a supervisor that is killed before it records the child's pid leaves no training process.
    On return, the child holds no descriptor of this process, so it never keeps a dead supervisor's lock.
    """
    output_fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    wait_fd, gate_fd = os.pipe()
    released_fd, release_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate_fd)
        _become(argv, cwd, environment, output_fd, wait_fd, release_fd, before)
    for descriptor in (output_fd, wait_fd, release_fd):
        os.close(descriptor)
    with os.fdopen(released_fd, "rb") as released:
        released.read()
    return Gated(pid, gate_fd)


def _become(
    argv: Sequence[str],
    cwd: str,
    environment: Dict[str, str],
    output_fd: int,
    wait_fd: int,
    release_fd: int,
    before: Callable[[], None],
) -> NoReturn:
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        _release_descriptors({0, 1, 2, wait_fd, release_fd})
        os.close(release_fd)
        if os.read(wait_fd, 1) != b"g":
            os._exit(CANNOT_RUN)
        os.close(wait_fd)
        before()
        _prefer_for_oom_kill()
        os.chdir(cwd)
        try:
            os.execvpe(argv[0], list(argv), environment)
        except OSError as error:
            raise OSError(why_not_started(argv[0], error)) from None
    except BaseException as error:  # noqa: BLE001 - a forked child must end here, whatever happened
        os.write(2, f"halfstep: cannot start {argv[0]}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(CANNOT_RUN)


def _release_descriptors(kept: Set[int]) -> None:
    """Close all inherited descriptors except `kept`. Otherwise the parent's lock and pipes would outlive the parent."""
    for descriptor in {int(name) for name in os.listdir("/dev/fd")} - kept:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def why_not_started(program: str, error: OSError) -> str:
    """Return why a program cannot be started from the current folder, in more detail than the kernel's message."""
    if error.errno == errno.ENOENT and "/" not in program:
        return "no program of that name is on PATH"
    if error.errno == errno.ENOENT and os.path.exists(program):
        line = _first_line(program)
        if line.endswith(b"\r"):
            return "its first line ends in a carriage return (Windows line endings), so its interpreter is not found"
        return f"its first line names an interpreter that does not exist: {line.decode('utf-8', 'replace')}"
    if error.errno == errno.EACCES and os.path.isfile(program):
        return "it is not executable (chmod +x)"
    if error.errno == errno.ENOEXEC:
        return "its first line names no interpreter (#!/bin/bash)"
    return error.strerror or str(error)


def _first_line(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.readline(200).rstrip(b"\n")
    except OSError:
        return b""


def _prefer_for_oom_kill() -> None:
    # The kernel should kill the trainer before its supervisor, which must survive to write the result.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
        file.write(str(max(300, int(file.read()))))


def supervise_argv(payload: str, mode: str, job: str, launch: str, notify: int) -> List[str]:
    """Return the command line of a job's supervisor."""
    return [sys.executable, "-I", "-S", "-B", payload, "supervise", mode, job, launch, str(notify)]
