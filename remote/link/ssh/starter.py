"""Processes of an SSH host, each over a channel of the one connection."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from remote.errors import SessionRefused
from remote.link.address import Address
from remote.link.ask import Prompter
from remote.link.shellwords import command_line
from remote.link.ssh.approach import Approach
from remote.link.ssh.dial import Patience
from remote.link.ssh.hostkeys import own_known_hosts
from remote.link.ssh.lean import load
from remote.link.wire import Wire

if TYPE_CHECKING:
    from remote.link.ssh.connect import Connection

# By name: it takes longer to load than the way to the host takes, so both happen at once.
CONNECT = "remote.link.ssh.connect"


class SshStarter:
    """Resolves, connects and logs in when something is first started; a broken connection is made anew.

    Everything goes over one connection, except on a server that allows one session only (MaxSessions 1): there each
    further process has a connection of its own.
    """

    def __init__(self, address: Address, *, ask: Prompter | None = None, patience: Patience | None = None) -> None:
        self._address = address
        self._ask = ask
        self._patience = patience or Patience()
        self._connections: list[Connection] = []
        self._lock = threading.Lock()

    @property
    def connection(self) -> Connection:
        """The one that everything goes over."""
        with self._lock:
            if not self._connections:
                self._add()
            return self._connections[0]

    def _add(self) -> Connection:
        approach = Approach(self._address, self._patience)
        made = load(CONNECT).Connection
        route, arrived = approach.arrive()
        self._connections.append(
            made(route, own=own_known_hosts(), ask=self._ask, patience=self._patience, arrived=arrived)
        )
        return self._connections[-1]

    def start(self, argv: Sequence[str]) -> Wire:
        command = command_line(argv)
        try:
            return self.connection.start(command)
        except SessionRefused:
            if not self.connection.in_use:
                raise
            return self._add().start(command)

    def describe(self) -> tuple[tuple[str, str], ...]:
        return self.connection.describe()

    def warnings(self) -> tuple[str, ...]:
        return tuple(self.connection.warnings)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def ssh_starter(address: Address, ask: Prompter | None) -> SshStarter:
    """What remote/link/reach.py finds by name, so that `local` never loads paramiko."""
    return SshStarter(address, ask=ask)
