"""Who watches the line: whatever waits for it longer than it may is ended by closing the socket under it."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from remote.link.ssh.dial import Patience

KEPT_FIRST = 500
NEAR_US = 1000
# struct tcp_info of linux/tcp.h, from Linux 4.6 on: tcpi_min_rtt is the u32 at 148.
TCP_INFO_BYTES, MIN_RTT_AT = 152, 148


class Stream(Protocol):
    """What paramiko wants of a socket: a real one, or a channel through a gateway."""

    def send(self, data: bytes, /) -> int: ...

    def recv(self, size: int, /) -> bytes: ...

    def settimeout(self, seconds: float | None, /) -> None: ...

    def close(self) -> None: ...


class Heard:
    """A stream that knows when something last came over it, and what came first.

    While `hurried`, what comes is acknowledged at once: a server that has not turned Nagle's algorithm off yet holds
    its next packet back until then, and a delayed acknowledgement costs 40 ms each time.
    """

    def __init__(self, stream: Stream, *, said: bytes = b"") -> None:
        self._stream = stream
        self._said = said
        self.first = b""
        self._ended = False
        self.hurried = isinstance(stream, socket.socket) and hasattr(socket, "TCP_QUICKACK")
        self.at = time.monotonic()

    def send(self, data: bytes) -> int:
        """As a socket's; what was `said` on the stream before it came here is not said again."""
        if self._said:
            said, self._said = self._said, b""
            if data == said:
                return len(data)
        return self._stream.send(data)

    def recv(self, size: int) -> bytes:
        data = self._stream.recv(size)
        self.at = time.monotonic()
        if len(self.first) < KEPT_FIRST:
            self.first += data[: KEPT_FIRST - len(self.first)]
        if self.hurried and isinstance(self._stream, socket.socket):
            with contextlib.suppress(OSError):
                self._stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return data

    def settimeout(self, seconds: float | None) -> None:
        self._stream.settimeout(seconds)

    @property
    def _closed(self) -> bool:
        """Under the name that paramiko looks for while it waits for its thread to end."""
        return self._ended

    def in_flight(self) -> int | None:
        """What `unsent` says, where that tells how fast the line is: over one to a machine nearby.

        Far away, a kernel acknowledges long before its sshd has read, and what is not acknowledged is only distance.
        """
        return self.unsent() if self._is_near() else None

    def _is_near(self) -> bool:
        if not isinstance(self._stream, socket.socket) or sys.platform != "linux":
            return False
        try:
            facts = self._stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        except OSError:
            return False
        return len(facts) == TCP_INFO_BYTES and int.from_bytes(facts[MIN_RTT_AT:], sys.byteorder) < NEAR_US

    def unsent(self) -> int | None:
        """Bytes that the kernel has taken and the other end has not acknowledged; None where that cannot be asked."""
        if not isinstance(self._stream, socket.socket):
            return None
        try:
            return int.from_bytes(fcntl.ioctl(self._stream, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        self._ended = True
        # A thread blocked in recv or send wakes on shutdown, not on close.
        if isinstance(self._stream, socket.socket):
            with contextlib.suppress(OSError):
                self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()


class Watchdog:
    """Asks for a sign of life when the line is silent, and closes it when none comes or a call outlives its deadline.

    The asking has a thread of its own: it blocks where the line is stuck, and the closing must not.
    """

    def __init__(self, heard: Heard, patience: Patience, ping: Callable[[], None], bite: Callable[[str], None]) -> None:
        self._heard = heard
        self._patience = patience
        self._ping = ping
        self._bite = bite
        self._ended = threading.Event()
        self._deadlines: dict[int, float] = {}
        for work in (self._watch, self._ask):
            threading.Thread(target=work, daemon=True).start()

    @contextlib.contextmanager
    def within(self, timeout_s: float) -> Iterator[None]:
        """The block ends within `timeout_s`, or the line is closed under it."""
        me = threading.get_ident()
        self._deadlines[me] = time.monotonic() + timeout_s
        try:
            yield
        finally:
            self._deadlines.pop(me, None)

    def end(self) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(min(0.5, self._patience.silence_s / 4)):
            now = time.monotonic()
            silence = now - self._heard.at
            if silence > self._patience.silence_s:
                self._bite(f"nothing came over the line for {silence:.0f} s")
                return
            if any(deadline < now for deadline in list(self._deadlines.values())):
                self._bite("a write was not taken in time")
                return

    def _ask(self) -> None:
        while not self._ended.wait(self._patience.ping_s / 2):
            if time.monotonic() - self._heard.at > self._patience.ping_s:
                try:
                    self._ping()
                except (OSError, EOFError):
                    return
