"""A name in a project's host file that DNS resolves to the laptop is confirmed before the login."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pipeline.config.hosts import LoadedHost, load_host
from pipeline.hosts.connection import connected
from pipeline.hosts.trust import local_confirmation, require_trust
from remote.errors import HostFileUntrusted
from remote.link.address import is_this_machine
from remote.link.ssh.route import ResolvedHop
from tests.lab.answers import Person
from tests.lab.sshd import Sshd, login_name
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.ssh_home import ALIAS, ssh_home

__all__ = ["ssh_home"]

RENTED = "gpu.rented.example"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the addresses that the name server answers with."""
    found: dict[str, str] = {RENTED: "127.0.0.1"}
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **more: resolve(found.get(host, host), *rest, **more)
    )
    return found


def settings(server: Sshd, name: str = RENTED, more: str = "") -> str:
    return (
        f"host: {name}\nport: {server.port}\nhost_key: {server.fingerprint()}\nuser: {login_name()}\n"
        f"identity_file: {server.user_key}\nworkdir: {server.home}/halfstep\n{more}"
    )


def reached(host: LoadedHost, prompter: Person | None) -> bool:
    with connected(host, keep=False, prompter=prompter) as link:
        return link.probe(["true"]).ok


@pytest.mark.parametrize("more", ["", "container: {image: lab/evil, engine: docker}\n"])
def test_SE_name_that_resolves_to_the_laptop_is_refused_before_the_login(
    tmp_path: Path, names: dict[str, str], sshd: Sshd, more: str
) -> None:
    write(tmp_path, settings(sshd, more=more), "hosts/rig")
    for nobody in (None, Person(yes=False)):
        with pytest.raises(HostFileUntrusted, match=f"reaches the local machine as {RENTED}"):
            reached(load_host("rig", tmp_path), nobody)
    assert "Accepted" not in sshd.log


def test_SE_name_that_resolves_to_the_laptop_is_confirmed_once(
    tmp_path: Path, names: dict[str, str], sshd: Sshd
) -> None:
    write(tmp_path, settings(sshd), "hosts/rig")
    person = Person(yes=True)
    assert reached(load_host("rig", tmp_path), person)
    assert reached(load_host("rig", tmp_path), person)
    assert reached(load_host("rig", tmp_path), None)
    assert [RENTED in question for question in person.questions] == [True]


def test_SE_gateway_that_resolves_to_the_laptop_is_refused_before_the_login(
    tmp_path: Path, names: dict[str, str], sshd: Sshd
) -> None:
    write(tmp_path, settings(sshd, "10.6.6.6", f"proxy_jump: ['{RENTED}:{sshd.port}']\n"), "hosts/rig")
    with pytest.raises(HostFileUntrusted, match=RENTED):
        reached(load_host("rig", tmp_path), None)
    assert "Accepted" not in sshd.log


def test_SE_file_that_was_used_before_its_name_resolved_to_the_laptop_is_refused(
    tmp_path: Path, names: dict[str, str], sshd: Sshd
) -> None:
    write(tmp_path, settings(sshd), "hosts/rig")
    require_trust(load_host("rig", tmp_path), None)
    with pytest.raises(HostFileUntrusted, match=RENTED):
        reached(load_host("rig", tmp_path), None)


@pytest.mark.parametrize(
    ("config", "hop"),
    [
        ("Host rig.example\n  User me\n", ResolvedHop("rig.example", "rig.example")),
        ("Host rig*\n  HostName 127.0.0.1\n", ResolvedHop("rig.example", "127.0.0.1")),
        ("Host *\n  ProxyJump gate.example\n", ResolvedHop("gate.example", "gate.example")),
    ],
)
def test_tunnel_that_ssh_config_configures_needs_no_confirmation(tmp_path: Path, config: str, hop: ResolvedHop) -> None:
    (tmp_path / "ssh").write_text(f"{ALIAS}{config}")
    write(tmp_path, "host: rig.example\n", "hosts/rig")
    check = local_confirmation(load_host("rig", tmp_path), None)
    assert check is not None
    check(hop)
    with pytest.raises(HostFileUntrusted):
        (tmp_path / "ssh").write_text(f"{ALIAS}Host *.example\n  User me\n")
        check(ResolvedHop("rig.example", "RIG.example."))


@pytest.mark.parametrize(
    ("name", "local"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("Localhost.localdomain.", True),
        ("a.localhost.localdomain", True),
        ("localhost6.localdomain6", True),
        ("localhost4", True),
        ("gpu1.localdomain", False),
        ("notlocalhost", False),
        ("localhost.example", False),
    ],
)
def test_name_of_this_machine_on_every_system_is_recognised(name: str, local: bool) -> None:
    assert is_this_machine(name) is local
