"""What the record of a run says of the user's trust in its host."""

from __future__ import annotations

from remote.protocol.dataclass import dataclass

OLDER = "?"
"""The host file in the record of an older version, which does not say whether a host file named the machine."""


@dataclass(frozen=True)
class HostTrust:
    """The trust in a host's settings when a command last started or resumed its run, or attached to it.

    `chosen` are the settings that the user gave in the command or had confirmed; a project's host file contained
    the others. `known_hosts` are the lines for this host in the file that `known_hosts:` of the host file names, or
    None if the host file names none. `file` is the line with which confirmations of the host file begin, or "" if
    the host had no file of a project. `destination` are the settings that selected the machine and the account.
    Records of older versions have no such values: then the user chose nothing.
    """

    chosen: tuple[str, ...] = ()
    known_hosts: str | None = None
    file: str = OLDER
    destination: str = ""
