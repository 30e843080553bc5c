"""Byte streams to and from a process with a timeout for each call, and their implementation with local pipes."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from remote.errors import AgentEnded, DeadlineExceeded

SLOWEST_BYTES_PER_S = 1024
"""The slowest connection. A transfer may take its timeout, and the time that its bytes take at this rate."""


class ProcessStream(Protocol):
    """The stdin and stdout of one process on the host."""

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        """Return 1 to `limit` bytes.

        Raises DeadlineExceeded after `timeout_s`, and ConnectionLost at the end of the stream.
        """
        ...

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send all of `data`. Raises ConnectionLost, and DeadlineExceeded if the host reads too slowly."""
        ...

    @property
    def in_flight(self) -> int | None:
        """The number of written bytes that a nearby host has not acknowledged. None if the host is distant."""
        ...

    def stderr_text(self) -> str:
        """Return the stderr output of the process, which explains why it did not start."""
        ...

    def close(self) -> None: ...


class Starter(Protocol):
    """Starts processes on a machine: locally, over SSH, or in a container."""

    def start(self, argv: Sequence[str]) -> ProcessStream:
        """Start a process. Raises CannotConnect, AuthRefused, HostKeyRefused, ConnectionLost."""
        ...

    def describe(self) -> tuple[tuple[str, str], ...]:
        """Return (step, result) for each completed step of connecting. The names of the steps are in inspection.py."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings about the connection."""
        ...

    def close(self) -> None:
        """Close the streams of all processes. The next `start` connects again."""
        ...


def write_limit_s(data: bytes, timeout_s: float) -> float:
    """Return the longest time that sending all of `data` may take."""
    return timeout_s + len(data) / SLOWEST_BYTES_PER_S


class LocalProcessStream:
    """Pipes to a child process on this machine."""

    def __init__(self, argv: Sequence[str], *, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",  # The process starts in the home folder, like a login shell, not in the project's folder.
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin = self._process.stdin.fileno()
        self._stdout = self._process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        self._stderr = bytearray()
        self._stderr_reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._stderr_reader.start()

    def _read_stderr(self) -> None:
        assert self._process.stderr
        while chunk := os.read(self._process.stderr.fileno(), 65536):
            self._stderr.extend(chunk)
            del self._stderr[:-65536]

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        readable, _, _ = select.select([self._stdout], [], [], timeout_s)
        if not readable:
            raise DeadlineExceeded(f"the agent on this machine sent nothing for {timeout_s:.0f} s")
        data = os.read(self._stdout, limit)
        if not data:
            raise AgentEnded("the agent on this machine ended")
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        view = memoryview(data)
        deadline = time.monotonic() + write_limit_s(data, timeout_s)
        while view:
            remaining_s = max(0.0, min(timeout_s, deadline - time.monotonic()))
            _, writable, _ = select.select([], [self._stdin], [], remaining_s)
            if not writable or time.monotonic() > deadline:
                raise DeadlineExceeded(f"the agent on this machine read nothing for {timeout_s:.0f} s")
            try:
                view = view[os.write(self._stdin, view) :]
            except BrokenPipeError:
                raise AgentEnded("the agent on this machine ended") from None

    @property
    def in_flight(self) -> int | None:
        return 0

    def stderr_text(self) -> str:
        self._stderr_reader.join(timeout=1.0)
        return self._stderr.decode("utf-8", "replace")

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        # The agent completes a change that is in progress, and then exits.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2.0)
        self._stderr_reader.join(timeout=1.0)


class LocalStarter:
    """Starts processes on this machine."""

    def start(self, argv: Sequence[str]) -> ProcessStream:
        return LocalProcessStream(argv)

    def describe(self) -> tuple[tuple[str, str], ...]:
        return (("connect", "this machine"),)

    def warnings(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Do nothing, since a local starter has no connection."""
