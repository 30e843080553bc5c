"""The addresses at which the hosts of a group listen, and whether the other hosts can connect to them."""

from __future__ import annotations

from remote.protocol.dataclass import dataclass
from remote.protocol.hidden import Identifier


@dataclass(frozen=True)
class OpenPort:
    """A port that a host has opened, the address by which other hosts may reach it, and its network interface.

    `interface` is "" if no interface of the host has the address, for example behind a NAT.
    """

    address: Identifier
    port: int
    interface: Identifier = ""


@dataclass(frozen=True)
class ConnectionAttempt:
    """Whether a host has reached the port of another host. `problem` is "" if the connection succeeded."""

    problem: str = ""
