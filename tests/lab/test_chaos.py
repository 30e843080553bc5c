"""The chaos proxy closes a connection in the same way as its peer did."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import pytest

from tests.lab.chaos import ChaosProxy

RST = struct.pack("ii", 1, 0)


@pytest.mark.parametrize("linger", [None, RST], ids=["closed", "reset"])
def test_a_connection_closed_by_one_end_is_closed_for_the_other(
    chaos: Callable[..., ChaosProxy], linger: bytes | None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = chaos(server.getsockname())
        client = socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
        far, _ = server.accept()
        with far:
            far.settimeout(60)
            client.sendall(b"x")
            assert far.recv(1) == b"x"
            if linger:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.close()
            try:
                assert far.recv(1) == b""
            except ConnectionResetError:
                assert linger
