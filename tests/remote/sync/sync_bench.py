"""A small local project, a real agent with its own workdir, and functions to damage both."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remote.errors import ConnectionLost
from remote.link.agent import AgentHost
from remote.link.streams import LocalProcessStream, LocalStarter, ProcessStream
from remote.project.limits import Limits
from remote.project.scan import Scan, scan_project
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import decode
from remote.sync.sync import SyncReport, sync_project

STRACE = shutil.which("strace")
# The real interpreter, because strace would also trace a pyenv shim.
PLAIN_PATH = {**os.environ, "PATH": "/usr/local/bin:/usr/bin:/bin"}


def no_wait(_seconds: float) -> None:
    """A retry policy that does not wait."""


@dataclass
class Bench:
    """A project and a host. `root` is the project, `workdir` the host's.

    Every call of `host` that finds no agent starts a new one.
    """

    root: Path
    workdir: Path
    starter: Any = field(default_factory=LocalStarter)
    _host: AgentHost | None = None

    @property
    def host(self) -> AgentHost:
        if self._host is None:
            self._host = AgentHost("bench", self.starter, workdir=str(self.workdir))
        return self._host

    def other_host(self, starter: Any = None) -> AgentHost:
        """Return the same machine and workdir through another agent."""
        return AgentHost("other", starter or LocalStarter(), workdir=str(self.workdir))

    def close(self) -> None:
        if self._host is not None:
            self._host.close()

    def scan(self, limits: Limits | None = None) -> Scan:
        return scan_project(self.root, limits=limits)

    def survey(self, host: AgentHost | None = None) -> TreeSurvey:
        answer = (host or self.host).ask("tree.survey", {"project": self.scan().project})
        return decode(TreeSurvey, answer)

    def sync(self, **options: Any) -> SyncReport:
        return sync_project(self.host, self.scan(), self.survey(), wait=no_wait, **options)

    @property
    def home(self) -> Path:
        """The project's folder on the host."""
        return self.workdir / "projects" / self.scan().project

    @property
    def tree(self) -> Path:
        return self.home / "tree"

    def write(self, files: dict[str, str | bytes]) -> None:
        for name, data in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data if isinstance(data, bytes) else data.encode())


def contents(folder: Path) -> dict[str, str]:
    """Map every path under a folder except `.halfstep` to digest and executable bit, or to the target of a link."""
    found: dict[str, str] = {}
    for parent, folders, names in os.walk(os.fsencode(folder)):
        folders[:] = [name for name in folders if name != b".halfstep"]
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(parent, name)))]:
            path = os.path.join(parent, name)
            key = os.fsdecode(os.path.relpath(path, os.fsencode(folder)))
            if os.path.islink(path):
                found[key] = f"-> {os.fsdecode(os.readlink(path))}"
            else:
                with open(path, "rb") as file:
                    digest = hashlib.sha256(file.read()).hexdigest()
                found[key] = f"{digest} {'x' if os.stat(path).st_mode & 0o100 else '-'}"
    return found


class CutWire:
    """A wire that is cut, together with its agent, after `after` bytes were sent over it."""

    def __init__(self, wire: LocalProcessStream, after: int) -> None:
        self.wire, self.left = wire, after
        self.cut = False

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        return self.wire.read_some(limit, timeout_s)

    def write(self, data: bytes, timeout_s: float) -> None:
        self.left -= len(data)
        if self.left < 0:
            self.wire.write(data[: self.left], timeout_s)
            self.cut = True
            kill_agent(self.wire)
            raise ConnectionLost("cut")
        self.wire.write(data, timeout_s)

    @property
    def in_flight(self) -> int | None:
        return self.wire.in_flight

    def stderr_text(self) -> str:
        return self.wire.stderr_text()

    def close(self) -> None:
        self.wire.close()


def kill_agent(wire: LocalProcessStream) -> None:
    wire._process.send_signal(signal.SIGKILL)
    wire._process.wait()


@dataclass
class CuttingStarter:
    """Starts agents. The first `cuts` wires are cut after `after` bytes each; later ones are not cut."""

    after: int
    cuts: int = 1
    wires: list[CutWire] = field(default_factory=list)

    def start(self, argv: Sequence[str]) -> ProcessStream:
        after = self.after if len(self.wires) < self.cuts else 2**62
        self.wires.append(CutWire(LocalProcessStream(argv), after))
        return self.wires[-1]

    @property
    def hits(self) -> int:
        return sum(wire.cut for wire in self.wires)

    def close(self) -> None: ...


@dataclass
class TracedStarter:
    """Runs the agent under strace, which injects faults by `options`. `log` contains the calls."""

    log: Path
    options: Sequence[str]

    def start(self, argv: Sequence[str]) -> ProcessStream:
        assert STRACE is not None
        traced = [STRACE, "-f", "-qq", "-o", str(self.log), *self.options, "--", *argv]
        return LocalProcessStream(traced, environment=PLAIN_PATH)

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def close(self) -> None: ...


def mounted(folder: Path, *options: str) -> Callable[[], None]:
    """Mount a tmpfs on the folder, until the returned function is called."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", *options, "tmpfs", str(folder)], check=True)
    return lambda: subprocess.run(["umount", "-l", str(folder)], check=True) and None
