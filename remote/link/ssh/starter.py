"""Start processes on an SSH host, each over its own channel of one connection."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from remote.errors import SessionRefused
from remote.link.address import Address
from remote.link.prompter import Prompter
from remote.link.shellwords import command_line
from remote.link.ssh.host_keys import own_known_hosts
from remote.link.ssh.partial_import import without
from remote.link.ssh.preconnect import Preconnect
from remote.link.ssh.route import ResolvedHop
from remote.link.ssh.sockets import Timeouts
from remote.link.streams import ProcessStream

if TYPE_CHECKING:
    from remote.link.ssh.connection import Connection

CONNECTION = "remote.link.ssh.connection"
NOT_NEEDED_BY_FABRIC = {"unittest.mock": ("Mock",), "invoke.vendor.yaml": ()}
"""invoke's test class and its own configuration files need these modules, whose import takes 30 ms."""


def load_connection() -> ModuleType:
    """Import and return CONNECTION, which imports fabric.

    It is imported by name, so that this slow import and the first TCP connection run in parallel.
    """
    with without(NOT_NEEDED_BY_FABRIC):
        return importlib.import_module(CONNECTION)


class SshStarter:
    """Starts processes on an SSH host. Connects after `begin` or on the first start, and again after a lost connection.

    All processes share one connection, except on a server that allows one session per connection (MaxSessions 1).
    On such a server, each further process has its own connection.
    """

    def __init__(
        self,
        address: Address,
        *,
        prompter: Prompter | None = None,
        confirm_local: Callable[[ResolvedHop], None] | None = None,
        timeouts: Timeouts | None = None,
        fast: bool = True,
    ) -> None:
        self._address = address
        self._prompter = prompter
        self._confirm_local = confirm_local
        self._timeouts = timeouts or Timeouts()
        self._fast = fast
        self._preconnect: Preconnect | None = None
        self._connections: list[Connection] = []
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Begin to connect in the background. The first start waits for the connection and raises its errors."""
        self._preconnect = Preconnect(self._address, self._timeouts)

    @property
    def connection(self) -> Connection:
        """The shared connection."""
        with self._lock:
            if not self._connections:
                self._add()
            return self._connections[0]

    def _add(self) -> Connection:
        preconnect, self._preconnect = self._preconnect or Preconnect(self._address, self._timeouts), None
        connection_class = load_connection().Connection
        route, sock = preconnect.result()
        self._connections.append(
            connection_class(
                route,
                own_known_hosts=own_known_hosts(),
                prompter=self._prompter,
                confirm_local=self._confirm_local,
                timeouts=self._timeouts,
                sock=sock,
                fast=self._fast,
            )
        )
        return self._connections[-1]

    def start(self, argv: Sequence[str]) -> ProcessStream:
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
        if self._preconnect is not None:
            self._preconnect.abandon()
            self._preconnect = None
        for connection in self._connections:
            connection.close()


def ssh_starter(
    address: Address, prompter: Prompter | None, confirm_local: Callable[[ResolvedHop], None] | None
) -> SshStarter:
    """Return an SshStarter that has begun to connect.

    open_host imports this module when it is needed: a local host does not load paramiko.
    """
    starter = SshStarter(address, prompter=prompter, confirm_local=confirm_local)
    starter.begin()
    return starter
