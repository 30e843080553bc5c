"""From a job's spec to its first process, which waits behind a gate until it is on record."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import socket
import sys
from dataclasses import dataclass, field
from typing import Callable, Dict, List, NoReturn, Sequence

from remote.protocol.jobs import JobSpec
from remote.protocol.layout import JobLayout, RunLayout

PLACEHOLDER = re.compile(r"\{(run_dir|output_dir|tensorboard_dir|job_dir|resume_from|payload|free_port)\}")
CANNOT_RUN = 127


@dataclass(frozen=True)
class Launch:
    """What reaches the supervisor beside the spec: secret values, and an environment where it has none of its own."""

    secrets: Dict[str, str] = field(default_factory=dict)
    environment: Dict[str, str] = field(default_factory=dict)


def secret_folder() -> str:
    """A folder in memory that only this user can read, or "" where this system has none."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        return _private(os.path.join(runtime, "halfstep"))
    if os.access("/dev/shm", os.W_OK):
        return _private(f"/dev/shm/hs-{os.getuid()}")
    return ""


def _private(folder: str) -> str:
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    # /dev/shm is writable for everybody: a folder that somebody else laid there first is not ours to trust.
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or os.path.islink(folder):
        return ""
    return folder


def write_launch(path: str, launch: Launch) -> None:
    """The file is there, readable for this user only, and was not there before."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump({"secrets": launch.secrets, "environment": launch.environment}, file)


def take_launch(path: str) -> Launch:
    """What the file said; it is gone afterwards. An empty path says nothing."""
    if not path:
        return Launch()
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        data = json.load(file)
    os.unlink(path)
    return Launch(data["secrets"], data["environment"])


def job_environment(spec: JobSpec, run: RunLayout, launch: Launch) -> Dict[str, str]:
    """What the training process finds: the host's variables, ours, the spec's, the secrets named in the spec."""
    ours = {
        "HALFSTEP_RUN_DIR": run.root,
        "HALFSTEP_JOB": str(spec.number),
        "HALFSTEP_OUTPUT_DIR": run.checkpoints,
        "HALFSTEP_TENSORBOARD_DIR": run.tensorboard,
        "TENSORBOARD_LOGGING_DIR": run.tensorboard,
        "HALFSTEP_RESUME_FROM": spec.resume_from,
        "PYTHONUNBUFFERED": "1",
        # torchrun kills its workers 30 s after a SIGTERM unless told otherwise: they have our grace to save.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(1, int(spec.grace_s))),
    }
    if spec.steps is not None:
        ours["HALFSTEP_STEPS"] = str(spec.steps)
    secrets = {name: launch.secrets[name] for name in spec.secrets if name in launch.secrets}
    asked = {name: os.path.expandvars(os.path.expanduser(value)) for name, value in spec.environment.items()}
    if any("{free_port}" in value for value in asked.values()):
        port = str(free_port())
        asked = {name: value.replace("{free_port}", port) for name, value in asked.items()}
    return {**(launch.environment or dict(os.environ)), **ours, **asked, **secrets}


def job_argv(spec: JobSpec, run: RunLayout, job: JobLayout, payload: str) -> List[str]:
    """The command with our placeholders filled in; other braces stay as they are."""
    words = {
        "run_dir": run.root,
        "output_dir": run.checkpoints,
        "tensorboard_dir": run.tensorboard,
        "job_dir": job.root,
        "resume_from": spec.resume_from,
        "payload": payload,
    }
    if any("{free_port}" in word for word in spec.argv):
        words["free_port"] = str(free_port())
    return [PLACEHOLDER.sub(lambda match: words[match.group(1)], word) for word in spec.argv]


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Gated:
    """A process that will become the command once `open_gate` is called, and ends by itself where nobody does."""

    pid: int
    gate: int

    def open_gate(self) -> None:
        os.write(self.gate, b"g")
        os.close(self.gate)


def start_gated(
    argv: Sequence[str], cwd: str, environment: Dict[str, str], output: str, before: Callable[[], None] = lambda: None
) -> Gated:
    """A child in a session of its own, its output going to the file `output`, waiting to become `argv`.

    `before` is called in the child once the gate is open; it may fork, and returns where `argv` is to run.
    The wait closes the gap between fork and record: killed there, we leave no training process that nobody knows of.
    """
    output_fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    wait_fd, gate_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate_fd)
        _become(argv, cwd, environment, output_fd, wait_fd, before)
    os.close(output_fd)
    os.close(wait_fd)
    return Gated(pid, gate_fd)


def _become(
    argv: Sequence[str],
    cwd: str,
    environment: Dict[str, str],
    output_fd: int,
    wait_fd: int,
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
        if os.read(wait_fd, 1) != b"g":
            os._exit(CANNOT_RUN)
        before()
        _offer_to_the_oom_killer()
        os.chdir(cwd)
        try:
            os.execvpe(argv[0], list(argv), environment)
        except OSError as error:
            raise OSError(why_not_started(argv[0], error)) from None
    except BaseException as error:  # noqa: BLE001 - a forked child must end here, whatever happened
        os.write(2, f"halfstep: cannot start {argv[0]}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(CANNOT_RUN)


def why_not_started(program: str, error: OSError) -> str:
    """What keeps a program, as seen from the current folder, from being started: the kernel's words rarely name it."""
    if error.errno == errno.ENOENT and "/" not in program:
        return "no program of that name is on PATH"
    if error.errno == errno.ENOENT and os.path.exists(program):
        line = _first_line(program)
        if line.endswith(b"\r"):
            return "its first line ends in a carriage return, as on Windows: no interpreter is called so"
        return f"its first line names an interpreter that is not there: {line.decode('utf-8', 'replace')}"
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


def _offer_to_the_oom_killer() -> None:
    # The trainer is to die before its supervisor, who must live to say why.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
        file.write(str(max(300, int(file.read()))))


def supervise_argv(payload: str, mode: str, job: str, launch: str, notify: int) -> List[str]:
    """The command that becomes a job's supervisor."""
    return [sys.executable, "-I", "-S", "-B", payload, "supervise", mode, job, launch, str(notify)]
