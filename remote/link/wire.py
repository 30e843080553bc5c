"""Two byte streams to an agent, each read bounded by a deadline: over a pipe here, over SSH in ssh/."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
from collections.abc import Sequence
from typing import Protocol

from remote.errors import AgentEnded, DeadlineExceeded


class Wire(Protocol):
    """A duplex stream whose far end is one process on the host."""

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        """1 to `limit` bytes. Raises DeadlineExceeded after `timeout_s` of silence, ConnectionLost at the end."""
        ...

    def write(self, data: bytes, timeout_s: float) -> None:
        """All of `data` is on its way. Raises DeadlineExceeded, ConnectionLost."""
        ...

    @property
    def in_flight(self) -> int | None:
        """Bytes written that the other machine has not acknowledged; None where that is not known, or far away."""
        ...

    def stderr_text(self) -> str:
        """What the far process wrote on stderr so far: the reason when it would not start."""
        ...

    def close(self) -> None: ...


class Starter(Protocol):
    """Whatever can start a process on a machine: a pipe here, a connection to there, a container on either."""

    def start(self, argv: Sequence[str]) -> Wire:
        """The wire to a new process. Raises CannotConnect, AuthRefused, HostKeyRefused, ConnectionLost."""
        ...

    def describe(self) -> tuple[tuple[str, str], ...]:
        """The steps of the way that were gone, as (step, how it went); see inspection.py for their names."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """What was not in order on the way, and did not stop anything."""
        ...

    def close(self) -> None:
        """Every process that was started has lost its wire; another start opens the way again."""
        ...


class ProcessWire:
    """The pipes of a child process on this machine."""

    def __init__(self, argv: Sequence[str], *, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",  # as a login shell, it does not start in the project
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin = self._process.stdin.fileno()
        self._stdout = self._process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        self._stderr = bytearray()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stderr
        while chunk := os.read(self._process.stderr.fileno(), 65536):
            self._stderr.extend(chunk)
            del self._stderr[:-65536]

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        readable, _, _ = select.select([self._stdout], [], [], timeout_s)
        if not readable:
            raise DeadlineExceeded(f"the agent on this machine said nothing for {timeout_s:.0f} s")
        data = os.read(self._stdout, limit)
        if not data:
            raise AgentEnded("the agent on this machine ended")
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        view = memoryview(data)
        while view:
            _, writable, _ = select.select([], [self._stdin], [], timeout_s)
            if not writable:
                raise DeadlineExceeded(f"the agent on this machine took nothing for {timeout_s:.0f} s")
            try:
                view = view[os.write(self._stdin, view) :]
            except BrokenPipeError:
                raise AgentEnded("the agent on this machine ended") from None

    @property
    def in_flight(self) -> int | None:
        return 0

    def stderr_text(self) -> str:
        self._listener.join(timeout=1.0)
        return self._stderr.decode("utf-8", "replace")

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        # An agent that is changing something finishes that, and ends by itself then.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2.0)
        self._listener.join(timeout=1.0)


class ProcessStarter:
    """Processes of this machine."""

    def start(self, argv: Sequence[str]) -> Wire:
        return ProcessWire(argv)

    def describe(self) -> tuple[tuple[str, str], ...]:
        return (("connect", "this machine"),)

    def warnings(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Nothing is held between two starts."""
