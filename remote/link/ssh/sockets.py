"""Connect a socket to a hop or to its ProxyCommand, within a deadline and with TCP keepalives."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time

from remote.errors import CannotConnect, NameUnknown
from remote.link.address import canonical, is_this_machine
from remote.link.ssh.route import ResolvedHop
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Timeouts:
    """The time limits of a connection, in seconds. After `silence_s` without received data, it is closed."""

    connect_s: float = 15.0
    keepalive_s: float = 8.0
    silence_s: float = 30.0


def connect_socket(hop: ResolvedHop, timeouts: Timeouts) -> socket.socket:
    """Return a connected socket, after trying every address of the name within one deadline.

    Raises NameUnknown, CannotConnect.
    """
    if hop.proxy_command:
        return _start_proxy_command(hop)
    deadline = time.monotonic() + min(timeouts.connect_s, hop.connect_timeout_s or timeouts.connect_s)
    try:
        # Python imports its codec for international names for every name of type str.
        name = hop.host.encode("ascii") if hop.host.isascii() else hop.host
        addresses = socket.getaddrinfo(name, hop.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise NameUnknown(
            f"cannot resolve {hop.host}: {getattr(error, 'strerror', None) or error}",
            where=hop.alias,
            hint="check `host:` in configs/hosts or HostName in ~/.ssh/config",
        ) from None
    failure: OSError = TimeoutError("timed out")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        remaining = deadline - time.monotonic()
        share = remaining if number == len(addresses) - 1 else remaining / 2
        if remaining <= 0:
            break
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(share)
            sock.connect(address)
        except OSError as error:
            sock.close()
            failure = error
            continue
        set_tcp_options(sock, timeouts)
        return sock
    raise _connect_error(hop, failure)


def leads_to_this_machine(sock: socket.socket) -> bool:
    """Return True if the other end of a TCP connection is on this machine. A ProxyCommand is no TCP connection."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        peer = str(sock.getpeername()[0])
    except OSError:  # The server has already closed the connection.
        return False
    return is_this_machine(canonical(peer))


def _connect_error(hop: ResolvedHop, failure: OSError) -> CannotConnect:
    if isinstance(failure, ConnectionRefusedError):
        return CannotConnect(
            f"{hop.where} refused the connection: no SSH server listens on port {hop.port}",
            where=hop.alias,
            hint=f"start sshd on it, or correct port {hop.port}",
        )
    if isinstance(failure, TimeoutError):
        return CannotConnect(
            f"connection to {hop.where} timed out",
            where=hop.alias,
            hint="is the machine on, and does a firewall or VPN block the port?",
        )
    return CannotConnect(f"cannot reach {hop.where}: {failure.strerror or failure}", where=hop.alias)


def set_tcp_options(sock: socket.socket, timeouts: Timeouts) -> None:
    """Disable Nagle's algorithm, and make the kernel close a connection whose data is not acknowledged."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    silence = int(timeouts.silence_s)
    options = {
        "TCP_KEEPIDLE": 10,
        "TCP_KEEPALIVE": 10,
        "TCP_KEEPINTVL": 5,
        "TCP_KEEPCNT": max(2, silence // 5 - 2),
        "TCP_USER_TIMEOUT": silence * 1000,
    }
    for name, value in options.items():
        number = getattr(socket, name, None)
        if number is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, number, value)


def _start_proxy_command(hop: ResolvedHop) -> socket.socket:
    """Run the user's ProxyCommand in a shell, as OpenSSH does. The command ends when the socket is closed.

    paramiko.ProxyCommand is not used: it runs the command without a shell, and blocks after the command has ended.
    """
    assert hop.proxy_command
    command = hop.proxy_command
    tokens = {"%h": hop.host, "%p": str(hop.port), "%r": hop.user, "%n": hop.alias, "%%": "%"}
    for token, value in tokens.items():
        command = command.replace(token, value)
    local, remote = socket.socketpair()
    try:
        subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=remote.fileno(),
            stdout=remote.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        local.close()
        raise CannotConnect(f"ProxyCommand did not start: {error}", where=hop.alias) from None
    finally:
        remote.close()
    return local
