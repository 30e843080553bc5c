"""How many bytes are on their way: told of a line to a machine nearby, not guessed of one far away."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.link.reach import open_host
from remote.link.ssh.monitored_socket import MonitoredSocket
from tests.lab.distance import Distance
from tests.lab.sshd import Sshd

LINUX = sys.platform == "linux"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours, theirs:
        yield ours, theirs


def test_a_line_on_this_machine_tells_what_nobody_has_taken(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    heard = MonitoredSocket(ours)
    assert heard.in_flight() == (0 if LINUX else None)
    ours.setblocking(False)
    given = 0
    try:
        while True:
            given += ours.send(bytes(2**20))
    except BlockingIOError:
        pass
    assert not LINUX or 0 < (heard.in_flight() or 0) <= given


def test_what_is_no_socket_or_is_closed_tells_nothing(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    ours.close()
    assert MonitoredSocket(ours).in_flight() is None


def test_of_a_host_nearby_it_is_told(sshd: Sshd, tmp_path: Path) -> None:
    host = open_host(sshd.address(workdir=str(tmp_path / "work")))
    host.ask("file.list", {"path": "nothing"})
    assert (host.in_flight is not None) == LINUX
    host.close()


def test_of_a_host_far_away_nothing_is_told(
    start_sshd: Callable[..., Sshd], go_far: Callable[..., Distance], tmp_path: Path
) -> None:
    line = go_far(one_way_ms=5.0)
    server = start_sshd(listen=line.far, prefix=line.prefix)
    host = open_host(server.address(workdir=str(tmp_path / "work")))
    host.ask("file.list", {"path": "nothing"})
    assert host.in_flight is None
    host.close()
