"""Find the rendezvous of a group of hosts: the addresses at which the hosts reach each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from remote.host import Host
from remote.operations.network import listening, new_token, unreachable_reason
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.rendezvous import OpenPort


@dataclass(frozen=True)
class Rendezvous:
    """A free port of each host, in the order of the hosts, and a finding for each pair of hosts that cannot connect."""

    places: tuple[OpenPort, ...]
    findings: tuple[Finding, ...]


def find_rendezvous(hosts: Sequence[tuple[str, Host, str]]) -> Rendezvous:
    """Test the connections between all hosts; each host is given as (name, connection, configured address)."""
    places: list[OpenPort] = []
    findings: list[Finding] = []
    for listener in hosts:
        token = new_token()
        with listening(listener[1], listener[2], token) as place:
            places.append(place)
            findings += _unreachable(listener[0], place, [other for other in hosts if other is not listener], token)
    return Rendezvous(tuple(places), tuple(findings))


def _unreachable(name: str, place: OpenPort, others: Sequence[tuple[str, Host, str]], token: str) -> Iterator[Finding]:
    for other, host, _ in others:
        problem = unreachable_reason(host, place, token)
        if problem:
            message = f"{other} cannot connect to {name} at {place.address}, port {place.port}: {problem}"
            hint = (
                f"set `address:` in the file of {name} to an address that {other} reaches; "
                "the firewalls of both must allow every TCP port between them"
            )
            yield Finding.error("rendezvous", message, name, hint, ExitCode.ENVIRONMENT)
