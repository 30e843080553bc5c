"""Connections that are refused for their host key, and what the server saw of them."""

from __future__ import annotations

import pytest

from remote.errors import HostKeyRefused
from remote.link.reach import open_host
from remote.protocol.exits import ExitCode
from tests.lab.sshd import Sshd

ATTEMPTS = ("publickey", "Failed", "Accepted", "password for")


def refused(server: Sshd, **changes: object) -> HostKeyRefused:
    """Return the error of connecting to the server."""
    host = open_host(server.address(**changes))
    try:
        with pytest.raises(HostKeyRefused) as caught:
            host.probe(["true"])
    finally:
        host.close()
    assert caught.value.exit_code is ExitCode.HOST_KEY
    return caught.value


def attempts(server: Sshd) -> list[str]:
    """Return the lines of the server's log about authentication."""
    return [line for line in server.log.splitlines() if any(word in line for word in ATTEMPTS)]
