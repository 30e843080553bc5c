"""Why no encrypted line came about, in words: nobody, somebody else, another age, or only a bad moment."""

from __future__ import annotations

from collections.abc import Mapping

import paramiko

from remote.errors import CannotConnect, HungUp
from remote.link.ssh.route import Station
from remote.link.ssh.transport import Transport
from remote.protocol.text import first_line

# What sshd says, in the clear, to whom it has no time for.
BUSY_WORDS = ("MaxStartups", "Not allowed at this time")


def no_handshake(station: Station, transport: Transport, error: Exception, first: bytes, late: bool) -> CannotConnect:
    """The error for a handshake that failed with `error`; `first` is what the server said first, `late` a timeout.

    HungUp, which is tried again, is only for what may be otherwise in a moment.
    """
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return _nothing_in_common(station, transport, error)
    if transport.remote_version:
        return _broken_off(station, error, late)
    said = first_line(first)
    if late:
        words = f"it says {said!r} and goes on" if said else "it says nothing"
        return _not_ssh(station, words)
    if not said or any(word in said for word in BUSY_WORDS):
        return HungUp(
            f"{station.where} hung up before saying that it is an SSH server: too many connections at once, "
            f"or not an SSH server{': ' + said if said else ''}",
            where=station.alias,
        )
    return _not_ssh(station, f"it says {said!r}")


def _not_ssh(station: Station, words: str) -> CannotConnect:
    return CannotConnect(
        f"what answers at {station.where} is not an SSH server: {words}",
        where=station.alias,
        hint=f"is {station.port} the right port?",
    )


def _broken_off(station: Station, error: Exception, late: bool) -> CannotConnect:
    if late:
        return CannotConnect(f"{station.where} timed out in the key exchange", where=station.alias)
    if isinstance(error, (EOFError, OSError)):
        return HungUp(f"{station.where} hung up in the key exchange", where=station.alias)
    return HungUp(f"{station.where} broke off the key exchange: {error}", where=station.alias)


def _nothing_in_common(station: Station, transport: Transport, error: Exception) -> CannotConnect:
    return CannotConnect(
        f"{station.where} and we have no algorithm in common ({error}). It offers {_algorithms(transport.offered)}; "
        f"we accept {', '.join(transport.preferred_kex)}; {', '.join(transport.preferred_keys[:6])}; "
        f"{', '.join(transport.preferred_ciphers)}",
        where=station.alias,
        hint="update the SSH server there: SHA-1 and CBC are not accepted",
    )


def _algorithms(offered: Mapping[str, list[str]]) -> str:
    rows = [offered.get(key, []) for key in ("kex_algo_list", "server_key_algo_list", "client_encrypt_algo_list")]
    return first_line("; ".join(", ".join(row) for row in rows), max_line=1500)
