"""The TCP connection to a host begins when the host is opened, before the first call."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from remote.errors import CannotConnect
from remote.link.address import Address
from remote.link.reach import open_host
from remote.link.ssh.preconnect import IDENTIFICATION
from remote.link.ssh.starter import SshStarter
from tests.lab.sshd import nobody_listens
from tests.lab.wait import PATIENCE_S


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        yield listening


def address_of(listener: socket.socket) -> Address:
    return Address("titan", "127.0.0.1", port=listener.getsockname()[1])


def received(listener: socket.socket) -> tuple[socket.socket, bytes]:
    """Return the next connection, and the first line that the client sends."""
    client, _ = listener.accept()
    client.settimeout(PATIENCE_S)
    return client, client.makefile("rb").readline()


def test_the_connection_begins_before_the_first_call(listener: socket.socket) -> None:
    host = open_host(address_of(listener))
    client, line = received(listener)
    assert line == f"{IDENTIFICATION}\r\n".encode()
    host.close()
    client.close()


def test_closing_a_host_without_a_call_closes_its_connection(listener: socket.socket) -> None:
    host = open_host(address_of(listener))
    client, _ = received(listener)
    host.close()
    assert client.recv(1) == b""


def test_a_connection_that_is_completed_after_the_end_is_closed(listener: socket.socket) -> None:
    starter = SshStarter(address_of(listener))
    starter.begin()
    starter.close()
    client, line = received(listener)
    assert line in (f"{IDENTIFICATION}\r\n".encode(), b"")
    assert client.recv(1) == b""


def test_the_first_call_raises_the_error_of_the_connection() -> None:
    with nobody_listens() as port:
        host = open_host(Address("titan", "127.0.0.1", port=port))
        with pytest.raises(CannotConnect, match="refused the connection"):
            host.probe(["true"])
        host.close()
