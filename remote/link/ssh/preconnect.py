"""Resolve the route and open the first TCP connection in a thread, while fabric is being imported."""

from __future__ import annotations

import contextlib
import socket
import threading

from remote.errors import HalfstepError
from remote.link.address import Address
from remote.link.ssh.resolve import resolve_route
from remote.link.ssh.route import Route
from remote.link.ssh.sockets import Timeouts, connect_socket

# RFC 4253 lets a client send its identification before the server does. It is sent while fabric is being imported.
IDENTIFICATION = "SSH-2.0-halfstep"


class Preconnect:
    """A thread that resolves a route and connects a socket to the first hop of the route."""

    def __init__(self, address: Address, timeouts: Timeouts) -> None:
        self._address = address
        self._timeouts = timeouts
        self._route: Route | None = None
        self._socket: socket.socket | None = None
        self._error: HalfstepError | None = None
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._route = resolve_route(self._address)
            self._socket = connect_first_hop(self._route, self._timeouts)
        except HalfstepError as error:
            self._error = error
        if self._abandoned:
            self.abandon()

    def result(self) -> tuple[Route, socket.socket]:
        """Return the route and a socket to its first hop. IDENTIFICATION was sent. Raises CannotConnect, BadUsage."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._route and self._socket
        return self._route, self._socket

    def abandon(self) -> None:
        """Close the socket, as soon as it is connected."""
        self._abandoned = True
        if self._socket is not None:
            self._socket.close()


def connect_first_hop(route: Route, timeouts: Timeouts) -> socket.socket:
    """Return a socket to the first hop of `route`, after sending IDENTIFICATION."""
    sock = connect_socket(route.hops[0], timeouts)
    # If the server has already closed the connection, the next read raises the error.
    with contextlib.suppress(OSError):
        sock.sendall(f"{IDENTIFICATION}\r\n".encode())
    return sock
