"""Check whether the hosts of a group can reach each other: one host opens a port, and the others connect to it."""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import select
import socket
import struct
import time
from typing import Any, Dict, Union

from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.rendezvous import ConnectionAttempt, OpenPort
from remote.protocol.values import encode

SIOCGIFADDR = 0x8915
TOKEN_BYTES = 64
CONNECT_S = 10.0
PEER_S = 2.0
OUTSIDE = ("192.0.2.1", 9)
"""An address reserved for documentation.

The route to it shows which interface leads to other networks; nothing is sent.
"""


def listen(call: Call) -> Dict[str, Any]:
    """Open a free port, push it as `OpenPort`, and answer clients that send `token`, until the laptop disconnects.

    `address` in the request is the configured address. If it is empty, the address to which the laptop connected is
    used. The port is open on this address only, like the store of a training job. If no interface has the address, as
    behind a NAT, the port is open on all interfaces.
    """
    address = call.args.get("address") or own_address()
    interface = interface_of(address)
    if interface:
        # The store of a training job binds to an address, not to a name.
        address = socket.gethostbyname(address)
    token = call.args["token"].encode("ascii")
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address if interface else "", 0))
        server.listen()
        call.push(encode(OpenPort(address, server.getsockname()[1], interface)))
        deadline = time.monotonic() + float(call.args["seconds"])
        while time.monotonic() < deadline and not call.connection.closed():
            readable, _, _ = select.select([server.fileno(), call.connection.source.fileno()], [], [], 1.0)
            if server.fileno() in readable:
                _answer(server, token)
            call.keep_alive()
    return {}


def _answer(server: socket.socket, token: bytes) -> None:
    with contextlib.suppress(OSError):
        peer, _ = server.accept()
        with peer:
            peer.settimeout(PEER_S)
            if hmac.compare_digest(_read(peer), token):
                peer.sendall(token)
                # The client must close first, because the port stays busy for a minute on the side that closes first.
                peer.recv(1)


def reach(call: Call) -> Dict[str, Any]:
    """Connect to the port of another host, check that the host returns the token, and return a `ConnectionAttempt`."""
    address, port = call.args["address"], int(call.args["port"])
    token = call.args["token"].encode("ascii")
    try:
        with socket.create_connection((address, port), CONNECT_S) as peer:
            peer.sendall(token)
            same = hmac.compare_digest(_read(peer), token)
    except socket.timeout:
        return encode(ConnectionAttempt(f"no answer within {CONNECT_S:.0f} s"))  # type: ignore[no-any-return]
    except OSError as error:
        return encode(ConnectionAttempt(error.strerror or str(error)))  # type: ignore[no-any-return]
    return encode(ConnectionAttempt("" if same else "another program answers there"))  # type: ignore[no-any-return]


def _read(peer: socket.socket) -> bytes:
    data = b""
    while len(data) < TOKEN_BYTES:
        more = peer.recv(TOKEN_BYTES - len(data))
        if not more:
            break
        data += more
    return data


def own_address() -> str:
    """Return the IPv4 address of this host to which the laptop connected by ssh.

    Without an ssh connection, return the host's address on the route to other networks.

    Raises Refusal for an IPv6 address, because rendezvous addresses are IPv4.
    """
    values = os.environ.get("SSH_CONNECTION", "").split()
    address = values[2] if len(values) == 4 else ""
    if ":" in address:
        message = f"the connection uses the IPv6 address {address}; training over several hosts needs an IPv4 address"
        raise Refusal("usage", message, where="address", hint="address: 10.0.0.1", exit_code=ExitCode.USAGE)
    return address or address_of_route()


def address_of_route() -> str:
    """Return the address from which this host reaches other networks, or a loopback address without a route."""
    try:
        return address_towards(*OUTSIDE)
    except OSError:
        return "127.0.0.1"


def address_towards(address: str, port: Union[int, str]) -> str:
    """Return the address of this host on the route to another address. Raises OSError if there is no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, int(port)))
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str:
    """Return the name of the network interface that has the address, or "" if no interface has it."""
    try:
        resolved = socket.gethostbyname(address)
    except OSError:
        return ""
    if resolved.startswith("127."):
        return "lo"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(answer[20:24]) == resolved:
                    return name
    return ""
