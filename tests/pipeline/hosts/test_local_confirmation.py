"""A name in a project's host file that DNS resolves to the laptop is confirmed before the login."""

from __future__ import annotations

import re
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
        socket, "getaddrinfo", lambda host, *rest, **more: resolve(found.get(host.decode(), host), *rest, **more)
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


CONTAINER = 'container: {image: evil/image, volumes: ["~/.ssh"]}\n'
STATED = rf"reaches the local machine as {RENTED} and runs the image evil/image on {RENTED} with the volumes ~/\.ssh"


def confirmed(host: LoadedHost, prompter: Person | None) -> None:
    """Pass both questions about the file, as for a connection to this machine."""
    require_trust(host, prompter)
    check = local_confirmation(host, prompter)
    assert check is not None
    check(ResolvedHop(RENTED, RENTED))


def test_SE_a_confirmation_of_secrets_does_not_confirm_that_the_name_resolves_to_the_laptop(tmp_path: Path) -> None:
    write(tmp_path, f"host: {RENTED}\nsecrets: [WANDB_API_KEY]\n{CONTAINER}", "hosts/gpubox")
    host, person = load_host("gpubox", tmp_path), Person(yes=True)
    require_trust(host, person)
    for nobody in (None, Person(yes=False)):
        with pytest.raises(HostFileUntrusted, match=STATED):
            confirmed(host, nobody)
    for prompter in (person, person, None):
        confirmed(host, prompter)
    assert len(person.questions) == 2
    assert "WANDB_API_KEY" in person.questions[0] and re.search(STATED, person.questions[1])


def test_SE_secrets_that_are_added_after_the_question_about_the_laptop_are_asked_about(tmp_path: Path) -> None:
    write(tmp_path, f"host: {RENTED}\n{CONTAINER}", "hosts/gpubox")
    confirmed(load_host("gpubox", tmp_path), Person(yes=True))
    confirmed(load_host("gpubox", tmp_path), None)
    write(tmp_path, f"host: {RENTED}\nsecrets: [WANDB_API_KEY]\n{CONTAINER}", "hosts/gpubox")
    with pytest.raises(HostFileUntrusted, match="WANDB_API_KEY"):
        confirmed(load_host("gpubox", tmp_path), None)
    person = Person(yes=True)
    for prompter in (person, person, None):
        confirmed(load_host("gpubox", tmp_path), prompter)
    assert ["WANDB_API_KEY" in question for question in person.questions] == [True, False]


def test_SE_an_image_confirmed_for_a_known_machine_is_not_confirmed_for_the_laptop(tmp_path: Path) -> None:
    known = tmp_path / "home/.ssh/known_hosts"
    known.write_text(known.read_text().replace("visited", f"visited,{RENTED}"))
    write(tmp_path, f"host: {RENTED}\n{CONTAINER}", "hosts/gpubox")
    host = load_host("gpubox", tmp_path)
    require_trust(host, Person(yes=True))
    require_trust(host, None)
    with pytest.raises(HostFileUntrusted, match=STATED):
        confirmed(host, None)


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
        ("Host rig.example\n  User me\n", ResolvedHop("rig.example", "rig.example", 2222)),
        ("Host rig*\n  HostName 127.0.0.1\n", ResolvedHop("rig.example", "127.0.0.1", 2222)),
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


@pytest.mark.parametrize("literal", ["127.0.0.1", "localhost", "::1", "127.1"])
def test_SE_port_of_the_laptops_own_ssh_server_is_confirmed(tmp_path: Path, literal: str) -> None:
    write(tmp_path, f"host: '{literal}'\n", "hosts/rig")
    host = load_host("rig", tmp_path)
    require_trust(host, None)
    check = local_confirmation(host, None)
    assert check is not None
    check(ResolvedHop(literal, literal, 2222))
    with pytest.raises(HostFileUntrusted, match=f"reaches the local machine as {literal}"):
        check(ResolvedHop(literal, literal))
    require_trust(host, Person(yes=True))
    check(ResolvedHop(literal, literal))


@pytest.mark.parametrize(
    ("name", "config", "hop"),
    [
        ("0", "", ResolvedHop("0", "0")),
        ("127.0.0.1", "", ResolvedHop("127.0.0.1", "127.0.0.1")),
        ("rig", "Host localhost\n  StrictHostKeyChecking no\n", ResolvedHop("localhost", "localhost")),
        ("rig", "Host rig.example\n  User me\n", ResolvedHop("rig.example", "rig.example")),
        ("rig", "Host rig*\n  HostName 127.0.0.1\n", ResolvedHop("rig.example", "127.0.0.1")),
    ],
)
def test_SE_a_file_of_the_project_that_reaches_port_22_of_the_laptop_is_confirmed_whatever_its_name(
    tmp_path: Path, name: str, config: str, hop: ResolvedHop
) -> None:
    (tmp_path / "ssh").write_text(f"{ALIAS}{config}")
    write(tmp_path, f"host: '{hop.alias}'\npython: ./planted\n", f"hosts/{name}")
    check = local_confirmation(load_host(name, tmp_path), None)
    assert check is not None
    with pytest.raises(HostFileUntrusted, match=r"local machine as .* and uses python \./planted on the local machine"):
        check(hop)
    (tmp_path / f"configs/hosts/{name}.yaml").unlink()
    assert local_confirmation(load_host(name, tmp_path), None) is None, "without a file, the user chose the machine"


@pytest.mark.parametrize("setting", ["python: ./planted", "workdir: ~/clone/wd"])
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "rig"])
def test_SE_what_a_file_starts_on_the_laptop_is_stated_in_one_question(tmp_path: Path, name: str, setting: str) -> None:
    target = "localhost" if name == "rig" else name
    write(tmp_path, f"host: {target}\n{setting}\n", f"hosts/{name}")
    host, person = load_host(name, tmp_path), Person(yes=True)
    check = local_confirmation(host, person)
    assert check is not None
    with pytest.raises(HostFileUntrusted):
        require_trust(host, Person(yes=False))
    require_trust(host, person)
    check(ResolvedHop(target, target))
    assert len(person.questions) == 1
    assert f"as {target} and uses {setting.replace(':', '')} on the local machine" in person.questions[0]


@pytest.mark.parametrize("target", ["127.0.0.1", "localhost"])
def test_a_tunnel_to_another_machine_is_used_without_a_terminal(tmp_path: Path, target: str) -> None:
    write(tmp_path, f"host: {target}\nport: 2222\npython: /opt/py\nworkdir: /data/me\n", "hosts/rig")
    host = load_host("rig", tmp_path)
    check = local_confirmation(host, None)
    assert check is not None
    require_trust(host, None)
    check(ResolvedHop(target, target, 2222))


def test_SE_the_program_of_a_file_that_trains_on_the_laptop_is_stated(tmp_path: Path) -> None:
    write(tmp_path, "host: local\npython: ./planted\n", "hosts/gpu")
    with pytest.raises(HostFileUntrusted, match=r"trains on the local machine and uses python \./planted on the local"):
        require_trust(load_host("gpu", tmp_path), None)


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
