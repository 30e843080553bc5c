"""Check whether hosts that will train together can connect to each other."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator

from remote.errors import ConnectionLost
from remote.host import Host, garbled, read_answer
from remote.protocol.rendezvous import ConnectionAttempt, OpenPort

LISTEN_S = 120.0
TOKEN_BYTES = 32
ADDRESS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
INTERFACE = re.compile(r"[^\s/]{0,15}")


@contextlib.contextmanager
def listening(host: Host, address: str, token: str) -> Iterator[OpenPort]:
    """Open a free port on the host for the duration of the block. If `address` is empty, the host selects an address.
    Raises the host's errors, and ConnectionLost if the operation ends before a port is open.
    """
    args = {"address": address, "token": token, "seconds": LISTEN_S}
    events = host.follow("network.listen", args, within_s=LISTEN_S)
    try:
        first = next((event for event in events if event), None)
        if first is None:
            raise ConnectionLost(f"{host.name} did not open a port", where=host.name)
        yield _validated(read_answer(OpenPort, host, first), host)
    finally:
        if hasattr(events, "close"):
            events.close()


def _validated(listener: OpenPort, host: Host) -> OpenPort:
    """Return `listener` if its fields are valid: they become part of command lines on other hosts. Raises Garbled."""
    if ADDRESS.fullmatch(listener.address) and 1 <= listener.port < 2**16 and INTERFACE.fullmatch(listener.interface):
        return listener
    raise garbled(host.name, f"an invalid address, port or interface: {listener}")


def unreachable_reason(host: Host, listener: OpenPort, token: str) -> str:
    """Try to connect from `host` to `listener`. Return why this failed, or "" if it succeeded."""
    args = {"address": listener.address, "port": listener.port, "token": token}
    return read_answer(ConnectionAttempt, host, host.ask("network.reach", args)).problem


def new_token() -> str:
    """Return a random value that identifies a listening host to the hosts that connect to it."""
    return secrets.token_hex(TOKEN_BYTES)
