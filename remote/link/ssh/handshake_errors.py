"""Errors for a failed SSH handshake: not an SSH server, no common algorithm, or a busy server."""

from __future__ import annotations

import re
from collections.abc import Mapping

import paramiko

from remote.errors import CannotConnect, HungUp
from remote.link.ssh.route import ResolvedHop
from remote.link.ssh.transport import OFFERED, SshTransport
from remote.protocol.hidden import first_message_line, without_hidden
from remote.protocol.text import first_line

BANNER = re.compile(r"SSH-\d+\.\d+-")
# The unencrypted messages that sshd sends when it refuses a connection because of its load or a penalty.
BUSY_MESSAGES = ("MaxStartups", "Not allowed at this time")


def handshake_error(
    hop: ResolvedHop, transport: SshTransport, error: Exception, first_bytes: bytes, timed_out: bool
) -> CannotConnect:
    """Return the error for a handshake that failed with `error`; `first_bytes` is the first data from the server.

    HungUp, which is retried, is used only for failures that may be temporary.
    """
    if transport.log.offered and isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return _no_common_algorithm(hop, transport, error)
    if BANNER.match(transport.remote_version):
        return _aborted(hop, error, timed_out)
    greeting = first_message_line(first_bytes)
    if timed_out:
        return _not_ssh(hop, f"its first line is {greeting!r}" if greeting else "it sends nothing")
    if not greeting or any(message in greeting for message in BUSY_MESSAGES):
        return HungUp(
            f"{hop.where} closed the connection before its SSH banner: too many connections at once, "
            f"or not an SSH server{': ' + greeting if greeting else ''}",
            where=hop.alias,
            hint=f"is {hop.port} the right port? If it is, try again in a minute",
        )
    return _not_ssh(hop, f"it sends {greeting!r}")


def _not_ssh(hop: ResolvedHop, reason: str) -> CannotConnect:
    return CannotConnect(
        f"{hop.where} is not an SSH server: {reason}", where=hop.alias, hint=f"is {hop.port} the right port?"
    )


def _aborted(hop: ResolvedHop, error: Exception, timed_out: bool) -> CannotConnect:
    if timed_out:
        return CannotConnect(f"{hop.where} timed out during the key exchange", where=hop.alias)
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return CannotConnect(
            f"{hop.where} speaks another version of SSH: {first_message_line(str(error))}", where=hop.alias
        )
    if isinstance(error, (EOFError, OSError)):
        return HungUp(f"{hop.where} closed the connection during the key exchange", where=hop.alias)
    return HungUp(f"{hop.where} aborted the key exchange: {first_message_line(str(error))}", where=hop.alias)


def _no_common_algorithm(hop: ResolvedHop, transport: SshTransport, error: Exception) -> CannotConnect:
    return CannotConnect(
        f"no algorithm in common with {hop.where} ({error}). It offers {_algorithms(transport.log.offered)}; "
        f"accepted are {', '.join(transport.preferred_kex)}; {', '.join(transport.preferred_keys[:6])}; "
        f"{', '.join(transport.preferred_ciphers)}",
        where=hop.alias,
        hint="update the SSH server: SHA-1 and CBC are not accepted",
    )


def _algorithms(offered: Mapping[str, str]) -> str:
    return first_line(without_hidden("; ".join(offered.get(kind, "") for kind in OFFERED)), max_line=1500)
