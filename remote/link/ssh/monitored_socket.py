"""A socket for paramiko that records when data last arrived and how many sent bytes are unacknowledged."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import sys
import termios
import time
from typing import Protocol

KEPT_FIRST_BYTES = 500
NEARBY_RTT_US = 1000
# struct tcp_info in linux/tcp.h belongs to Linux's stable ABI. Since Linux 4.6, tcpi_min_rtt is the u32 at offset 148.
TCP_INFO_BYTES, MIN_RTT_OFFSET = 152, 148


class SocketLike(Protocol):
    """The methods of a socket that paramiko calls. Sockets and channels through a gateway have these methods."""

    def send(self, data: bytes, /) -> int: ...

    def recv(self, size: int, /) -> bytes: ...

    def settimeout(self, seconds: float | None, /) -> None: ...

    def close(self) -> None: ...


class MonitoredSocket:
    """A wrapper of a socket.

    `sent_banner` is the identification line that was sent before paramiko got the socket; the line is not sent again.
    While `quickack` is True, received data is acknowledged immediately. A server on which Nagle's algorithm is still
    enabled waits for the acknowledgement before it sends its next packet, and a delayed acknowledgement takes 40 ms.
    """

    def __init__(self, sock: SocketLike, *, sent_banner: bytes = b"") -> None:
        self._socket = sock
        self._sent_banner = sent_banner
        self.first_bytes = b""
        self._closed = False  # paramiko reads this attribute while it waits for its transport thread.
        self.quickack = isinstance(sock, socket.socket) and hasattr(socket, "TCP_QUICKACK")
        self.last_received = time.monotonic()

    def send(self, data: bytes) -> int:
        if self._sent_banner:
            sent, self._sent_banner = self._sent_banner, b""
            if data == sent:
                return len(data)
        return self._socket.send(data)

    def recv(self, size: int) -> bytes:
        data = self._socket.recv(size)
        self.last_received = time.monotonic()
        if len(self.first_bytes) < KEPT_FIRST_BYTES:
            self.first_bytes += data[: KEPT_FIRST_BYTES - len(self.first_bytes)]
        if self.quickack and isinstance(self._socket, socket.socket):
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return data

    def settimeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)

    def in_flight(self) -> int | None:
        """Return the number of bytes that a nearby peer has not acknowledged, or None for a distant peer.

        For a distant peer, the number would depend on the round-trip time, not on whether the peer's sshd reads the
        data.
        """
        return self.unacknowledged() if self._is_nearby() else None

    def _is_nearby(self) -> bool:
        if not isinstance(self._socket, socket.socket) or sys.platform != "linux":
            return False
        try:
            info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        except OSError:
            return False
        return len(info) == TCP_INFO_BYTES and int.from_bytes(info[MIN_RTT_OFFSET:], sys.byteorder) < NEARBY_RTT_US

    def unacknowledged(self) -> int | None:
        """Return the number of bytes that the kernel accepted and the peer has not acknowledged, or None if unknown."""
        if not isinstance(self._socket, socket.socket):
            return None
        try:
            return int.from_bytes(fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        self._closed = True
        # A thread that is blocked in recv or send wakes up on shutdown, not on close.
        if isinstance(self._socket, socket.socket):
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
