"""SE: a name that only ssh itself recognises, not a line of ~/.ssh/config with this name, belongs to the user too."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.hosts.ssh_names import SshNames
from pipeline.hosts.trust import require_trust
from remote.errors import HostFileUntrusted
from tests.lab.answers import Person
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.ssh_home import known_hosts, ssh_home

__all__ = ["ssh_home"]

USERS = {
    "known_hosts2": ("", "known_hosts2", r"\.ssh/known_hosts2"),
    "UserKnownHostsFile": ("Host *\n  UserKnownHostsFile ~/.ssh/mine\n", "mine", r"\.ssh/mine"),
    "GlobalKnownHostsFile": ("Host *\n  GlobalKnownHostsFile {ssh}/mine\n", "mine", r"\.ssh/mine"),
    "KnownHostsCommand": ("KnownHostsCommand /bin/cat {ssh}/mine\n", "mine", "the output of KnownHostsCommand"),
    "host name": ("Host *\n  HostName %h.lab.example\n", "known_hosts", r"\.ssh/known_hosts"),
    "hashed port": ("Host *\n  Port 2200\n", "known_hosts2", r"\.ssh/known_hosts2"),
    "Match": ("Match !user nobody host cluster\n  HostName 10.0.0.2\n", "", "your ~/.ssh/config"),
    "Match list": ('Match exec "true" originalhost rig7,cluster\n  User you\n', "", "your ~/.ssh/config"),
    "exec": ('Match exec "test %h = cluster"\n  HostName 10.0.0.2\n', "", "your ssh configuration"),
    "exec port": ('Match exec "test %n = cluster"\n  Port 2200\n', "", "your ssh configuration"),
    "not the others": ("Host * !cluster !gate.example\n  ProxyJump gate.example\n", "", "your ssh configuration"),
}
"""The user's ~/.ssh/config, the file with the key of `cluster`, and the place that the question names."""
NOBODYS = {
    "nothing": "",
    "all names": "Host *\n  User me\n  Port 2200\n  IdentityFile ~/.ssh/id_%h\n",
    "all host names": "Host *\n  HostName %h.lab.example\n",
    "one machine": "Host *\n  HostName visited\n",
    "all gateways": "Host * !gate.example\n  ProxyJump gate.example\n",
    "exec": 'Match exec "true"\n  User me\n',
    "failing command": "KnownHostsCommand /bin/false\n",
}


def prepare(tmp_path: Path, kind: str) -> str:
    config, file, place = USERS[kind]
    ssh = tmp_path / "home/.ssh"
    (tmp_path / "ssh").write_text(config.format(ssh=ssh))
    if file:
        name = {"host name": "cluster.lab.example", "hashed port": "[cluster]:2200"}.get(kind, "cluster")
        (ssh / file).write_text(known_hosts().replace("other,visited", name))
    return place


@pytest.mark.parametrize("kind", USERS)
def test_SE_a_file_that_redirects_a_name_that_ssh_recognises_is_confirmed(tmp_path: Path, kind: str) -> None:
    place = prepare(tmp_path, kind)
    file = write(tmp_path, "host: 10.6.6.6\n", "hosts/cluster")
    for argument in ("cluster", str(file)):
        with pytest.raises(
            HostFileUntrusted, match=rf"leads to .*10\.6\.6\.6[a-z.]*:\d+, not .*cluster (of|in) .*{place}"
        ):
            require_trust(load_host(argument, tmp_path), None)


@pytest.mark.parametrize("kind", USERS)
def test_SE_a_machine_that_ssh_recognises_is_the_users_under_another_name_too(tmp_path: Path, kind: str) -> None:
    place = prepare(tmp_path, kind)
    write(tmp_path, "host: cluster\n", "hosts/rig")
    require_trust(load_host("rig", tmp_path), None)
    person = Person(yes=False)
    with pytest.raises(HostFileUntrusted, match=f"reaches cluster of .*{place}"):
        require_trust(load_host("rig", tmp_path), person)
    write(tmp_path, "host: rig.example\nproxy_jump: [cluster]\ncontainer: lab/evil\n", "hosts/rig")
    with pytest.raises(HostFileUntrusted, match=r"runs the image lab/evil on rig\.example"):
        require_trust(load_host("rig", tmp_path), None)


@pytest.mark.parametrize("config", NOBODYS.values(), ids=NOBODYS)
@pytest.mark.parametrize("text", ["host: 10.6.6.6\nport: 2222\n", "host: rig.example\n", "host: CLUSTER\n"])
def test_a_name_that_ssh_resolves_as_every_other_name_needs_no_confirmation(
    tmp_path: Path, config: str, text: str
) -> None:
    (tmp_path / "ssh").write_text(config)
    write(tmp_path, text, "hosts/cluster")
    require_trust(load_host("cluster", tmp_path), Person(yes=False))


@pytest.mark.parametrize("kind", USERS)
def test_a_tunnel_of_a_script_needs_no_confirmation_without_a_terminal(tmp_path: Path, kind: str) -> None:
    prepare(tmp_path, kind)
    for name in ("127.0.0.1", "localhost", "::1", "127.1"):
        write(tmp_path, f"host: {name!r}\nport: 2222\n", "hosts/tunnel")
        require_trust(load_host("tunnel", tmp_path), None)


def test_a_name_that_was_new_at_first_needs_no_confirmation_after_ssh_stored_its_key(tmp_path: Path) -> None:
    prepare(tmp_path, "UserKnownHostsFile")
    mine = tmp_path / "home/.ssh/mine"
    key = mine.read_text()
    mine.unlink()
    write(tmp_path, "host: 10.6.6.6\n", "hosts/cluster")
    require_trust(load_host("cluster", tmp_path), None)
    mine.write_text(key)
    require_trust(load_host("cluster", tmp_path), None)


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        ("CanonicalizeHostname [\n", False),
        ('Match exec "test %h = cluster"\n  Bad yes\n', False),
        ("Host *\n  User me\n", False),
    ],
)
def test_a_configuration_that_ssh_refuses_gives_no_name_a_meaning(tmp_path: Path, config: str, asked: bool) -> None:
    (tmp_path / "ssh").write_text(config)
    assert SshNames(os.environ).has_settings("cluster") is asked
    assert not SshNames(os.environ).known_hosts_file("cluster", None)


@pytest.mark.parametrize("name", ["127.1", "2130706433", "::FFFF:10.0.0.7", "10.0.0.7", "Cluster", "a.Lab.Example"])
def test_no_spelling_of_a_name_is_a_setting(tmp_path: Path, name: str) -> None:
    (tmp_path / "ssh").write_text("Host *\n  User me\n")
    assert not SshNames(os.environ).has_settings(name)
    (tmp_path / "ssh").write_text("Match exec \"test '%n' = '" + name + "'\"\n  Port 2200\n")
    assert SshNames(os.environ).has_settings(name)


def test_ssh_resolves_each_name_once_and_only_for_the_file_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, wrapper = tmp_path / "calls", tmp_path / "bin/ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nfor last; do :; done; echo "$last" >> {log}\nexec {shutil.which("ssh")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    for name in ("titan", "local", "10.0.0.7", "rig.example"):
        require_trust(load_host(name, tmp_path), Person(yes=False))
    write(tmp_path, "host: visited\n", "hosts/visited")
    require_trust(load_host("visited", tmp_path), Person(yes=False))
    assert not log.exists(), "no file, or a name that known_hosts contains"
    write(tmp_path, "host: 10.6.6.6\n", "hosts/rig")
    require_trust(load_host("rig", tmp_path), Person(yes=True))
    calls = log.read_text().split()
    assert len(calls) == len(set(calls)) == 4 and {"rig", "10.6.6.6"} <= set(calls)
