"""The first steps to a host, taken while paramiko is being loaded: resolve, connect, say which protocol we speak."""

from __future__ import annotations

import contextlib
import socket
import threading

from remote.errors import HalfstepError
from remote.link.address import Address
from remote.link.ssh.dial import Patience, dial
from remote.link.ssh.resolve import resolve_route
from remote.link.ssh.route import Route

# Sent before the server's own, as the protocol allows: its next packet is then on its way when ours is ready.
VERSION = "SSH-2.0-halfstep"


class Approach:
    """A route that is being resolved and a socket that is being connected to its first station."""

    def __init__(self, address: Address, patience: Patience) -> None:
        self._address = address
        self._patience = patience
        self._route: Route | None = None
        self._socket: socket.socket | None = None
        self._error: HalfstepError | None = None
        self._thread = threading.Thread(target=self._walk, daemon=True)
        self._thread.start()

    def _walk(self) -> None:
        try:
            self._route = resolve_route(self._address)
            self._socket = greet(self._route, self._patience)
        except HalfstepError as error:
            self._error = error

    def arrive(self) -> tuple[Route, socket.socket]:
        """The route, and a socket on which VERSION was sent. Raises what stood in the way."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._route and self._socket
        return self._route, self._socket


def greet(route: Route, patience: Patience) -> socket.socket:
    """A socket to the route's first station, on which VERSION was sent."""
    sock = dial(route.stations[0], patience)
    # A server that is gone already is found out by whoever reads.
    with contextlib.suppress(OSError):
        sock.sendall(f"{VERSION}\r\n".encode())
    return sock
