"""One exec channel as a Wire: reads and writes that make progress or fail; deadlines count from the last progress."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from remote.errors import AgentEnded, ConnectionLost, DeadlineExceeded

KEPT_STDERR = 65536
SLICE_S = 0.5
GOODBYE_S = 2.0


class Channel(Protocol):
    """What is used of paramiko's channel."""

    def recv(self, size: int) -> bytes: ...

    def recv_stderr(self, size: int) -> bytes: ...

    def recv_stderr_ready(self) -> bool: ...

    def send(self, data: bytes | memoryview) -> int: ...

    def settimeout(self, seconds: float | None) -> None: ...

    def close(self) -> None: ...


class ChannelWire:
    """The far end is one process on the host; `why` says why the connection is gone, empty while it is there."""

    def __init__(
        self,
        channel: Channel,
        name: str,
        why: Callable[[], str],
        within: Callable[[float], AbstractContextManager[None]],
        progress: Callable[[], object],
        in_flight: Callable[[], int | None],
    ) -> None:
        self._channel = channel
        self._name = name
        self._why = why
        self._within = within
        self._progress = progress
        self._in_flight = in_flight
        self._stderr = bytearray()

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        progress = self._progress()
        while True:
            remaining = deadline - time.monotonic()
            self._channel.settimeout(max(0.0, min(SLICE_S, remaining)))
            try:
                data = self._channel.recv(limit)
            except TimeoutError:
                self._listen()
                if progress != (now := self._progress()):
                    progress, deadline = now, time.monotonic() + timeout_s
                elif remaining <= 0:
                    raise DeadlineExceeded(
                        f"{self._name} said nothing for {timeout_s:.0f} s", where=self._name
                    ) from None
                continue
            except OSError:
                data = b""
            if data:
                return data
            raise self._lost()

    def write(self, data: bytes, timeout_s: float) -> None:
        view = memoryview(data)
        while view:
            self._channel.settimeout(timeout_s)
            try:
                with self._within(timeout_s):
                    sent = self._channel.send(view)
            except TimeoutError:
                raise DeadlineExceeded(f"{self._name} took nothing for {timeout_s:.0f} s", where=self._name) from None
            except (OSError, EOFError):
                sent = 0
            if sent == 0:
                raise self._lost()
            view = view[sent:]

    @property
    def in_flight(self) -> int | None:
        return self._in_flight()

    def _listen(self) -> None:
        while self._channel.recv_stderr_ready():
            self._stderr.extend(self._channel.recv_stderr(KEPT_STDERR))
            del self._stderr[:-KEPT_STDERR]

    def _lost(self) -> ConnectionLost:
        why = self._why()
        if why:
            return ConnectionLost(f"the line to {self._name} went away: {why}", where=self._name)
        return AgentEnded(f"our agent on {self._name} ended", where=self._name)

    def last_words(self) -> str:
        self._channel.settimeout(1.0)
        with contextlib.suppress(OSError):
            while chunk := self._channel.recv_stderr(KEPT_STDERR):
                self._stderr.extend(chunk)
                del self._stderr[:-KEPT_STDERR]
        return self._stderr.decode("utf-8", "replace")

    def close(self) -> None:
        # Saying goodbye is a write too, and the line may be stuck.
        with contextlib.suppress(OSError, EOFError), self._within(GOODBYE_S):
            self._channel.close()
