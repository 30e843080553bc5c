"""Processes of an SSH host, each over a channel of the one connection."""

from __future__ import annotations

from collections.abc import Sequence

from remote.address import Address
from remote.ask import Ask
from remote.shellwords import command_line
from remote.ssh.connect import Connection
from remote.ssh.dial import Patience
from remote.ssh.hostkeys import own_known_hosts
from remote.ssh.resolve import resolve_route
from remote.wire import Wire


class SshStarter:
    """Resolves, connects and logs in when something is first started; a broken connection is made anew."""

    def __init__(self, address: Address, *, ask: Ask | None = None, patience: Patience | None = None) -> None:
        self._address = address
        self._ask = ask
        self._patience = patience
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(
                resolve_route(self._address), own=own_known_hosts(), ask=self._ask, patience=self._patience
            )
        return self._connection

    def start(self, argv: Sequence[str]) -> Wire:
        return self.connection.start(command_line(argv))

    def describe(self) -> tuple[tuple[str, str], ...]:
        return self.connection.describe()

    def warnings(self) -> tuple[str, ...]:
        return tuple(self.connection.warnings)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def ssh_starter(address: Address, ask: Ask | None) -> SshStarter:
    """What remote/reach.py finds by name, so that `local` never loads paramiko."""
    return SshStarter(address, ask=ask)
