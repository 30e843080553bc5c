"""A simulated user with a project folder and a home folder, who runs `pipeline` as a program."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.json_output import read_answer
from tests.lab.sshd import Sshd

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 280
QUICK = tuple(
    word
    for override in ("train.max_steps=4", "train.save_steps=2", "data.samples=12", "train.evaluate=false")
    for word in ("--set", override)
)
"""Overrides that make the config `tiny` take a few seconds."""


@dataclass(frozen=True)
class CommandResult:
    """The output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object on stdout."""
        return read_answer(self.out)

    @property
    def states(self) -> dict[str, str]:
        return {stage["name"]: stage["state"] for stage in self.json["stages"]}


@dataclass
class User:
    """A user with a project."""

    project: Path
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.project.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)

    def _argv(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "pipeline", *words]

    @property
    def environment_of_commands(self) -> dict[str, str]:
        keep = {
            name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "TORCHDYNAMO_DISABLE") if name in os.environ
        }
        ours = {"HOME": str(self.home), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        return {**keep, **ours, **self.environment}

    def run_pipeline(self, *words: str, patience_s: float = PATIENCE_S) -> CommandResult:
        """Run `pipeline WORDS` and wait for its end."""
        done = subprocess.run(
            self._argv(words),
            cwd=self.project,
            env=self.environment_of_commands,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience_s,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    def answer_pipeline(self, answers: Sequence[str], *words: str) -> tuple[int, str]:
        """Run `pipeline WORDS` at a terminal with these answers, and return its exit code and its output."""
        ours, theirs = pty.openpty()
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        done = subprocess.run(
            self._argv(words),
            cwd=self.project,
            env=self.environment_of_commands,
            stdin=theirs,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        os.close(theirs)
        os.close(ours)
        return done.returncode, (done.stdout + done.stderr).decode()

    def start_pipeline(self, *words: str) -> subprocess.Popen[bytes]:
        """Start `pipeline WORDS` in its own process group."""
        return subprocess.Popen(
            self._argv(words),
            cwd=self.project,
            env=self.environment_of_commands,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def write_host_file(self, name: str, server: Sshd, *, folder: Path | None = None, **more: object) -> Path:
        """Write a host file for the server into the project, or into that folder; return its path."""
        folder = folder or self.project / "configs" / "hosts"
        folder.mkdir(parents=True, exist_ok=True)
        keys = {
            "host": server.listen,
            "port": server.port,
            "identity_file": server.user_key,
            "known_hosts": server.known_hosts,
            "python": sys.executable,
            **more,
        }
        path = folder / f"{name}.yaml"
        path.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
        return path


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the command with SIGKILL, as a power cut would end it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
