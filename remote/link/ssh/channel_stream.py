"""One exec channel as a ProcessStream. Each deadline restarts when data is sent or received."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from remote.errors import AgentEnded, ConnectionLost, DeadlineExceeded
from remote.link.streams import write_limit_s

KEPT_STDERR = 65536
POLL_S = 0.5
CLOSE_TIMEOUT_S = 2.0
STDERR_TIMEOUT_S = 5.0
LONGEST_SEND_S = 3600.0
"""The longest time for which data that is still being sent extends the deadline of an answer."""


class Channel(Protocol):
    """The methods of paramiko.Channel that ChannelStream uses."""

    def recv(self, size: int) -> bytes: ...

    def recv_stderr(self, size: int) -> bytes: ...

    def recv_stderr_ready(self) -> bool: ...

    def send(self, data: bytes | memoryview) -> int: ...

    def settimeout(self, seconds: float | None) -> None: ...

    def close(self) -> None: ...


class ChannelStream:
    """The stdin and stdout of one process on the host.

    `loss_reason` returns why the connection was lost, or "" while it is open. `deadline` is a context manager that
    closes the connection if the block takes too long. `progress` returns a value that changes while written data is
    still being sent.
    """

    def __init__(
        self,
        channel: Channel,
        name: str,
        loss_reason: Callable[[], str],
        deadline: Callable[[float], AbstractContextManager[None]],
        progress: Callable[[], object],
        in_flight: Callable[[], int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channel = channel
        self._name = name
        self._loss_reason = loss_reason
        self._deadline = deadline
        self._progress = progress
        self._in_flight = in_flight
        self._clock = clock
        self._stderr = bytearray()

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        deadline = self._clock() + timeout_s
        latest = deadline + LONGEST_SEND_S
        progress = self._progress()
        while True:
            remaining = deadline - self._clock()
            self._channel.settimeout(max(0.0, min(POLL_S, remaining)))
            try:
                data = self._channel.recv(limit)
            except TimeoutError:
                self._drain_stderr()
                if progress != (now := self._progress()) and remaining > deadline - latest:
                    progress, deadline = now, min(latest, self._clock() + timeout_s)
                elif remaining <= 0:
                    raise DeadlineExceeded(
                        f"{self._name} sent nothing for {timeout_s:.0f} s", where=self._name
                    ) from None
                continue
            except OSError:
                data = b""
            if data:
                return data
            raise self._lost()

    def write(self, data: bytes, timeout_s: float) -> None:
        view = memoryview(data)
        deadline = self._clock() + write_limit_s(data, timeout_s)
        while view:
            self._channel.settimeout(max(0.0, min(timeout_s, deadline - self._clock())))
            try:
                with self._deadline(timeout_s):
                    sent = self._channel.send(view)
            except TimeoutError:
                raise DeadlineExceeded(f"{self._name} read nothing for {timeout_s:.0f} s", where=self._name) from None
            except (OSError, EOFError):
                sent = 0
            if sent == 0:
                raise self._lost()
            view = view[sent:]

    @property
    def in_flight(self) -> int | None:
        return self._in_flight()

    def _drain_stderr(self) -> None:
        deadline = time.monotonic() + POLL_S
        while time.monotonic() < deadline and self._channel.recv_stderr_ready():
            self._keep_stderr(self._channel.recv_stderr(KEPT_STDERR))

    def _keep_stderr(self, chunk: bytes) -> None:
        self._stderr.extend(chunk)
        del self._stderr[:-KEPT_STDERR]

    def _lost(self) -> ConnectionLost:
        reason = self._loss_reason()
        if reason:
            return ConnectionLost(f"the connection to {self._name} was lost: {reason}", where=self._name)
        return AgentEnded(f"the agent on {self._name} ended", where=self._name)

    def stderr_text(self) -> str:
        self._channel.settimeout(1.0)
        deadline = time.monotonic() + STDERR_TIMEOUT_S
        with contextlib.suppress(OSError):
            while time.monotonic() < deadline and (chunk := self._channel.recv_stderr(KEPT_STDERR)):
                self._keep_stderr(chunk)
        return self._stderr.decode("utf-8", "replace")

    def close(self) -> None:
        # Closing a channel sends a message, which blocks on a dead connection.
        with contextlib.suppress(OSError, EOFError), self._deadline(CLOSE_TIMEOUT_S):
            self._channel.close()
