"""Whether the hosts of one training reach each other, over real SSH servers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.hosts.rendezvous import Rendezvous, find_rendezvous
from remote.errors import Garbled
from remote.link.local import local_host
from remote.link.reach import open_host
from remote.operations.network import listening, unreachable_reason
from remote.payload.probes import network
from remote.payload.request.refusal import Refusal
from remote.protocol.rendezvous import OpenPort
from tests.lab.fake_host import FakeHost
from tests.lab.payload import install_payload
from tests.lab.sshd import Sshd, nobody_listens
from tests.lab.wait import until


@pytest.mark.ssh
def test_hosts_meet_at_the_addresses_that_ssh_reached(start_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    servers = [start_sshd("a"), start_sshd("b", listen="127.0.0.2")]
    hosts = [open_host(one.address()) for one in servers]

    def found() -> Rendezvous | None:
        """Return the ports, or None if the system has meanwhile given one to a connection of another program."""
        rendezvous = find_rendezvous([("a", hosts[0], ""), ("b", hosts[1], "")])
        assert rendezvous.findings == ()
        return rendezvous if all(is_free(place.port) for place in rendezvous.places) else None

    rendezvous = until(found, "the ports for torchrun")
    assert [place.address for place in rendezvous.places] == ["127.0.0.1", "127.0.0.2"]
    assert {place.interface for place in rendezvous.places} == {"lo"}
    for host in hosts:
        host.close()


def test_a_port_is_open_on_the_address_of_the_host_only(tmp_path: Path) -> None:
    host = local_host(str(install_payload(tmp_path)))
    with listening(host, "127.0.0.2", "t" * 64) as place:
        assert unreachable_reason(host, place, "t" * 64) == ""
        assert unreachable_reason(host, replace(place, address="127.0.0.1"), "t" * 64) == "Connection refused"
    with listening(host, "localhost", "t" * 64) as place:
        assert place.address == "127.0.0.1", "the address of a name, to which torch binds"
    with listening(host, "192.0.2.1", "t" * 64) as place:
        assert (place.address, place.interface) == ("192.0.2.1", "")
        assert unreachable_reason(host, replace(place, address="127.0.0.3"), "t" * 64) == "", "an address behind a NAT"
    host.close()


def is_free(port: int) -> bool:
    """Return True if torchrun could listen on the port; like torchrun, this reuses one that was just closed."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
            probe.listen()
    except OSError:
        return False
    return True


def test_an_unreachable_address_is_a_finding_that_names_both_hosts(tmp_path: Path) -> None:
    hosts = [local_host(str(install_payload(tmp_path / name))) for name in "ab"]
    rendezvous = find_rendezvous([("a", hosts[0], "127.0.0.1"), ("b", hosts[1], "no-such-host.invalid")])
    (finding,) = rendezvous.findings
    assert finding.message.startswith("a cannot connect to b at no-such-host.invalid, port ")
    assert (finding.check, finding.exit_code) == ("rendezvous", 20)
    assert "`address:` in the file of b" in finding.hint
    for host in hosts:
        host.close()


def that_listens(**place: object) -> FakeHost:
    said = {"address": "10.0.0.1", "port": 29500, "interface": "eth0", **place}
    return FakeHost(operations={"network.listen": lambda args: {}}, streams={"network.listen": [said]})


@pytest.mark.parametrize(
    "place",
    [{"address": "--nnodes=9"}, {"address": "{payload}"}, {"address": ""}, {"port": 0}, {"port": 2**16},
     {"interface": "eth0 evil"}, {"interface": "e" * 16}],
)  # fmt: skip
def test_SE_a_host_s_address_is_validated_before_it_is_in_the_command_line_of_another(place: dict[str, object]) -> None:
    with listening(that_listens(), "", "t" * 64) as good:
        assert good == OpenPort("10.0.0.1", 29500, "eth0")
    with (
        pytest.raises(Garbled, match="invalid address, port or interface"),
        listening(that_listens(**place), "", "t" * 64),
    ):
        pass


def test_a_closed_port_and_another_program_are_distinguished(tmp_path: Path) -> None:
    host = local_host(str(install_payload(tmp_path)))
    with nobody_listens() as port:
        assert unreachable_reason(host, OpenPort("127.0.0.1", port), "t" * 64) == "Connection refused"
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_greet, args=(server,), daemon=True).start()
        place = OpenPort("127.0.0.1", server.getsockname()[1])
        assert unreachable_reason(host, place, "t" * 64) == "another program answers there"
    host.close()


def _greet(server: socket.socket) -> None:
    peer, _ = server.accept()
    with peer:
        peer.sendall(b"SSH-2.0-OpenSSH_9.9\r\n".ljust(64))
        peer.recv(100)


def test_an_ipv6_connection_needs_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "2001:db8::1 50000 2001:db8::2 22")
    with pytest.raises(Refusal, match="needs an IPv4 address"):
        network.own_address()
    monkeypatch.setenv("SSH_CONNECTION", "203.0.113.9 50000 10.0.0.5 22")
    assert network.own_address() == "10.0.0.5"
    monkeypatch.delenv("SSH_CONNECTION")
    assert network.own_address().count(".") == 3
    assert network.interface_of("127.0.0.9") == "lo"
    assert network.interface_of("no-such-host.invalid") == ""
