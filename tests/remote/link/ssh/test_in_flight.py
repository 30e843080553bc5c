"""The number of bytes in flight is known for a nearby host only."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.link.reach import open_host
from remote.link.ssh.monitored_socket import MonitoredSocket
from tests.lab.delayed_link import DelayedLink
from tests.lab.sshd import Sshd

LINUX = sys.platform == "linux"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        local = socket.create_connection(server.getsockname())
        remote, _ = server.accept()
    with local, remote:
        yield local, remote


def test_unread_bytes_to_a_peer_on_this_machine_are_in_flight(pair: tuple[socket.socket, socket.socket]) -> None:
    local, _ = pair
    monitored = MonitoredSocket(local)
    assert monitored.in_flight() == (0 if LINUX else None)
    local.setblocking(False)
    given = 0
    try:
        while True:
            given += local.send(bytes(2**20))
    except BlockingIOError:
        pass
    assert not LINUX or 0 < (monitored.in_flight() or 0) <= given


def test_a_closed_socket_has_an_unknown_number_of_bytes_in_flight(pair: tuple[socket.socket, socket.socket]) -> None:
    local, _ = pair
    local.close()
    assert MonitoredSocket(local).in_flight() is None


def test_a_nearby_host_has_a_known_number_of_bytes_in_flight(sshd: Sshd, tmp_path: Path) -> None:
    host = open_host(sshd.address(workdir=str(tmp_path / "work")))
    host.ask("file.list", {"path": "nothing"})
    assert (host.in_flight is not None) == LINUX
    host.close()


def test_a_distant_host_has_an_unknown_number_of_bytes_in_flight(
    start_sshd: Callable[..., Sshd], start_link: Callable[..., DelayedLink], tmp_path: Path
) -> None:
    line = start_link(one_way_ms=5.0)
    server = start_sshd(listen=line.far, prefix=line.prefix)
    host = open_host(server.address(workdir=str(tmp_path / "work")))
    host.ask("file.list", {"path": "nothing"})
    assert host.in_flight is None
    host.close()
