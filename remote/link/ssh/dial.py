"""A socket to a server, or to the program that leads to it: connected within a deadline, awake to a dead line."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from dataclasses import dataclass

from remote.errors import CannotConnect, NameUnknown
from remote.link.ssh.route import Station


@dataclass(frozen=True)
class Patience:
    """Seconds: until connected, between signs of life asked for, and of silence after which a line is dead."""

    connect_s: float = 15.0
    ping_s: float = 8.0
    silence_s: float = 30.0


def dial(station: Station, patience: Patience) -> socket.socket:
    """A connected socket. Raises CannotConnect; tries every address of the name, none for longer than its share."""
    if station.proxy_command:
        return _through_command(station)
    deadline = time.monotonic() + min(patience.connect_s, station.connect_timeout_s or patience.connect_s)
    try:
        found = socket.getaddrinfo(station.host, station.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise NameUnknown(
            f"cannot resolve {station.host}: {getattr(error, 'strerror', None) or error}",
            where=station.alias,
            hint="check `host:` in configs/hosts or HostName in ~/.ssh/config",
        ) from None
    failure: OSError = TimeoutError("timed out")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        remaining = deadline - time.monotonic()
        share = remaining if number == len(found) - 1 else remaining / 2
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
        tune(sock, patience)
        return sock
    raise _cannot(station, failure)


def _cannot(station: Station, failure: OSError) -> CannotConnect:
    if isinstance(failure, ConnectionRefusedError):
        return CannotConnect(
            f"{station.where} refused the connection: no SSH server listens on port {station.port}",
            where=station.alias,
            hint=f"start sshd there, or correct port {station.port}",
        )
    if isinstance(failure, TimeoutError):
        return CannotConnect(
            f"{station.where} timed out: nothing answered",
            where=station.alias,
            hint="is the machine on, and does a firewall or VPN stand between?",
        )
    return CannotConnect(f"cannot reach {station.where}: {failure.strerror or failure}", where=station.alias)


def tune(sock: socket.socket, patience: Patience) -> None:
    """Small packets leave at once, and the kernel notices a line on which nothing is acknowledged any more."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    silence = int(patience.silence_s)
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


def _through_command(station: Station) -> socket.socket:
    """The user's own ProxyCommand, run by a shell as ssh runs it; it ends when the socket is closed."""
    assert station.proxy_command
    command = station.proxy_command
    tokens = {"%h": station.host, "%p": str(station.port), "%r": station.user, "%n": station.alias, "%%": "%"}
    for token, value in tokens.items():
        command = command.replace(token, value)
    ours, theirs = socket.socketpair()
    try:
        subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise CannotConnect(f"ProxyCommand did not start: {error}", where=station.alias) from None
    finally:
        theirs.close()
    return ours
