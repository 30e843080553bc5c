"""A machine of the user is recognised by every name of the machine, and for every spelling of the host file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.hosts.trust import require_trust
from remote.errors import HostFileUntrusted
from tests.lab.answers import Person
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.ssh_home import ALIAS, ssh_home

__all__ = ["ssh_home"]

LOOPBACK = (
    "127.0.0.1",
    "127.1",
    "2130706433",
    "127.9.9.9",
    "0.0.0.0",
    "LOCALHOST",
    "a.localhost",
    "::1",
    "::ffff:127.0.0.1",
)
SAME_ADDRESS = ("203.0.113.9", "3405803785", "0xcb.0.113.9", "203.0.28937", "::ffff:203.0.113.9", "::ffff:cb00:7109")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("rig", "host: titan\n", "reaches titan of your ~/.ssh/config"),
        ("rig", "host: visited\npython: planted\n", "reaches visited of .*known_hosts"),
        ("rig", "host: 10.6.6.6\nproxy_jump: [me@hashed:2222]\n", "reaches hashed of .*known_hosts"),
        *(("rig", f"host: {name!r}\nport: 2222\n", "the local machine as") for name in LOOPBACK),
        *(("rig", f"host: {name!r}\n", "reaches .* of .*known_hosts") for name in SAME_ADDRESS),
        ("rig", "host: visited.\n", "reaches visited. of .*known_hosts"),
        ("rig", "host: hashed-port\nport: 2222\n", "reaches hashed-port of .*known_hosts"),
    ],
)
def test_a_terminal_is_asked_before_a_file_reaches_a_machine_of_the_user_under_another_name(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    write(tmp_path, text, f"hosts/{name}")
    host = load_host(name, tmp_path)
    require_trust(host, None)
    with pytest.raises(HostFileUntrusted, match=reason):
        require_trust(host, Person(yes=False))
    user = Person(yes=True)
    require_trust(host, user)
    require_trust(host, user)
    assert len(user.questions) == 1 and re.search(reason, user.questions[0])


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("titan", "host: titan\ncontainer: {image: lab/evil, user: 0}\n", "runs the image lab/evil on titan as user 0"),
        ("visited", "host: visited\ncontainer: lab/evil\n", "runs the image lab/evil on visited"),
        (
            "rig",
            "host: rig.example\nproxy_jump: [titan]\ncontainer: lab/evil\n",
            "runs the image lab/evil on rig.example",
        ),
    ],
)
def test_SE_an_image_on_the_users_machine_is_confirmed_also_if_the_host_file_was_given_by_its_path(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    file = write(tmp_path, text, f"hosts/{name}")
    for argument in (str(file), name):
        with pytest.raises(HostFileUntrusted, match=reason):
            require_trust(load_host(argument, tmp_path), None)


PINNED = "SHA256:" + "A" * 43


@pytest.mark.parametrize("spelling", ["titan", "configs/hosts/titan.yaml", "../p/configs/hosts/titan.yaml"])
@pytest.mark.parametrize(
    "text",
    [
        f"host_key: {PINNED}\n",
        "known_hosts: configs/known_hosts\n",
        "proxy_jump: [evil.example]\n",
        "user: other\n",
        f"port: 22921\nhost_key: {PINNED}\n",
    ],
)
def test_SE_a_redirection_of_the_users_machine_is_confirmed_for_every_spelling_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str, text: str
) -> None:
    project = tmp_path / "p"
    write(project, f"host: titan\n{text}", "hosts/titan")
    monkeypatch.chdir(project)
    for argument in (spelling, "titan"):
        with pytest.raises(HostFileUntrusted, match="titan"):
            require_trust(load_host(argument, project), None)


@pytest.mark.parametrize(("name", "port"), [("hashed-port", 2222), ("forwarded", 2222), ("hashed", 22)])
@pytest.mark.parametrize("given_as_path", [False, True])
def test_SE_a_machine_that_known_hosts_lists_with_a_port_is_recognised_by_the_port_of_the_file(
    tmp_path: Path, name: str, port: int, given_as_path: bool
) -> None:
    file = write(tmp_path, f"host: {name}\nport: {port}\nhost_key: {PINNED}\n", f"hosts/{name}")
    with pytest.raises(HostFileUntrusted, match=name):
        require_trust(load_host(str(file) if given_as_path else name, tmp_path), None)


def test_SE_a_file_that_was_used_by_its_path_is_not_confirmed_for_its_name(tmp_path: Path) -> None:
    file = write(tmp_path, "host: 10.6.6.6\n", "hosts/gpu.lab.example")
    for _ in range(2):
        require_trust(load_host(str(file), tmp_path), None)
    with pytest.raises(HostFileUntrusted, match=r"the network address gpu\.lab\.example"):
        require_trust(load_host("gpu.lab.example", tmp_path), None)


def test_SE_a_file_that_was_used_before_its_name_became_an_alias_is_confirmed(tmp_path: Path) -> None:
    file = write(tmp_path, "host: rig.example\n", "hosts/rig")
    for argument in ("rig", str(file)):
        require_trust(load_host(argument, tmp_path), None)
    (tmp_path / "ssh").write_text(f"{ALIAS}Host rig\n  HostName 10.0.0.2\n")
    for argument in ("rig", str(file)):
        with pytest.raises(HostFileUntrusted, match=r"rig\.example"):
            require_trust(load_host(argument, tmp_path), None)


def test_a_host_file_given_by_its_path_without_a_redirection_needs_no_confirmation(tmp_path: Path) -> None:
    for name in ("titan", "visited", "hashed"):
        file = write(tmp_path, f"host: {name}\ncard: titan-rtx\n", f"hosts/{name}")
        require_trust(load_host(str(file), tmp_path), Person(yes=False))


def test_SE_a_gateway_with_the_name_of_the_file_is_confirmed_at_a_terminal(tmp_path: Path) -> None:
    file = write(tmp_path, "host: rig.example\nproxy_jump: [visited]\n", "hosts/visited")
    person = Person(yes=True)
    require_trust(load_host(str(file), tmp_path), person)
    assert len(person.questions) == 1 and "visited" in person.questions[0]
