"""Whom a round strikes, found among the living, and how they are hit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.soak.world import World

STAGES = ("sync", "environment", "fix", "verify", "train", "logs")
ON_THE_WAY = ("laptop", "agent", "session", "line")
OF_THE_JOB = ("supervisor", "trainer", "host")
"""`host`: everything of ours there at once."""


class Typed:
    """A command under way: its lines as they come, and its end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.began = time.monotonic()
        self.ended: dict[str, float] = {}
        self._said: dict[str, bytes] = {"stderr": b""}
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read_out, self._read_err)]
        for thread in self._threads:
            thread.start()

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word = line.decode().split()[:1]
            if word and word[0] in STAGES:
                self.ended.setdefault(word[0], time.monotonic() - self.began)

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        self._said["stderr"] = self.process.stderr.read()

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def finish(self, patience_s: float) -> tuple[int, str]:
        """Its exit code and what it said on stderr. Raises AssertionError where it does not end in that time."""
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"I11: the struck command did not end in {patience_s:.0f} s") from None
        finally:
            kill_quietly(self.process)
            for thread in self._threads:
                thread.join(20)
        return self.process.returncode, self._said["stderr"].decode("utf-8", "replace")


def kill_quietly(process: subprocess.Popen[bytes]) -> None:
    """It and everything in its session is gone; its pipes are left to their readers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(condition: Callable[[], bool], seconds: float, step_s: float = 0.003) -> bool:
    """Whether it came true in that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(step_s)
    return True


def there(world: World) -> dict[int, str]:
    """Every living process on the host by pid: `agent`, `supervisor`, `trainer`, or `other` of ours."""
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
    """What a process with that command line is to us."""
    words = command.split(b"\0")
    if b"supervise" in words:
        return "supervisor"
    if any(word.endswith(b"train.py") for word in words):
        return "trainer"
    # The first agent on a host has no payload's path in its words yet: it was told its program in base64.
    return "agent" if any(b".pyz" in word or b"base64" in word for word in words) else "other"


def end_all(world: World) -> None:
    """Nothing of ours is left on the host, whatever an earlier round left."""
    while pids := list(there(world)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def strike(world: World, victim: str, typed: Typed) -> int:
    """How many were hit."""
    if typed.over:
        return 0
    if victim == "laptop":
        kill_quietly(typed.process)
        return 1
    if victim == "line":
        world.proxy.cut()
        return 1
    if victim == "session":
        return world.server.kill_sessions()
    hit = 0
    for pid, part in there(world).items():
        if victim in ("host", part):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                hit += 1
    return hit
