"""The processes of a run that a round can kill."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.soak.laptop import Running
from tests.soak.world import World

STAGES = ("sync", "environment", "fix", "verify", "train", "logs")
ON_THE_WAY = ("laptop", "agent", "session", "line")
OF_THE_JOB = ("supervisor", "trainer", "host")
"""`host`: all processes of halfstep on the host."""


class RunningCommand:
    """A running command: its output, the end of each stage, and its exit code."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self.began = time.monotonic()
        self.ended: dict[str, float] = {}
        self.out = self.err = ""
        self.code: int | None = None
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._read_out, self._read_err)]
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        for thread in (*self._threads, self._waiter):
            thread.start()

    def _read_out(self) -> None:
        with os.fdopen(self._running.stdout, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                self.out += line
                word = line.split()[:1]
                if word and word[0] in STAGES:
                    self.ended.setdefault(word[0], time.monotonic() - self.began)

    def _read_err(self) -> None:
        with os.fdopen(self._running.stderr, encoding="utf-8", errors="replace") as stream:
            self.err = stream.read()

    def _wait(self) -> None:
        self.code = self._running.wait()

    @property
    def over(self) -> bool:
        return not self._waiter.is_alive()

    def finish(self, patience_s: float) -> int:
        """Wait for the exit code; `out` and `err` have the whole output. Raises AssertionError if it takes longer."""
        self._waiter.join(patience_s)
        late = not self.over
        self.kill()
        assert not late, f"I11: a command did not end in {patience_s:.0f} s"
        assert self.code is not None
        return self.code

    def kill(self) -> None:
        """Kill the command and its session, if they still run."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._running.pid, signal.SIGKILL)
        for thread in (self._waiter, *self._threads):
            thread.join(60)


def wait_for(condition: Callable[[], bool], seconds: float, step_s: float = 0.003) -> bool:
    """Return True if the condition holds within that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(step_s)
    return True


def host_processes(world: World) -> dict[int, str]:
    """Return every living process on the host by pid: `agent`, `supervisor`, `trainer` or `other`."""
    mark = os.fsencode(f"HOME={world.server.home}") + b"\0"
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            ours = mark in (folder / "environ").read_bytes() + b"\0"
            command = (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if ours and state not in "ZX":
            found[int(folder.name)] = part_of(command)
    return found


def part_of(command: bytes) -> str:
    """Return the kind of process with that command line."""
    words = command.split(b"\0")
    if b"supervise" in words:
        return "supervisor"
    if any(word.endswith(b"train.py") for word in words):
        return "trainer"
    # The first agent on a host has no payload yet, so its argument is its program in base64.
    return "agent" if any(b".pyz" in word or b"base64" in word for word in words) else "other"


def end_all(world: World) -> None:
    """Kill all processes of halfstep on the host, including those of earlier rounds."""
    while pids := list(host_processes(world)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def kill_victim(world: World, victim: str, typed: RunningCommand) -> int:
    """Kill the victim, and return the number of processes or connections that were hit."""
    if typed.over:
        return 0
    if victim == "laptop":
        typed.kill()
        return 1
    if victim == "line":
        world.proxy.cut()
        return 1
    if victim == "session":
        return world.server.kill_sessions()
    hit = 0
    for pid, part in host_processes(world).items():
        if victim in ("host", part):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                hit += 1
    return hit
