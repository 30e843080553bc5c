"""SE: an alias that the administrator defined for every user is a machine of the user, as one of ~/.ssh/config."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.hosts import ssh_names
from pipeline.hosts.trust import require_trust
from remote.errors import HostFileUntrusted
from remote.link.ssh import aliases
from tests.lab.answers import Person
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.ssh_home import known_hosts


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the configuration of the system be a file of the test, and let ssh read it."""
    path = tmp_path / "etc/ssh_config"
    path.parent.mkdir()
    path.write_text("Host cluster\n  HostName 10.0.0.2\nHost *\n  HashKnownHosts yes\n")
    monkeypatch.setattr(aliases, "SYSTEM_CONFIG", path)
    monkeypatch.setattr(aliases, "account_home", lambda: os.environ["HOME"])
    monkeypatch.setattr(ssh_names, "SYSTEM_KNOWN_HOSTS", (str(tmp_path / "etc/ssh_known_hosts"),))
    return path


@pytest.mark.parametrize("spelling", ["cluster", "configs/hosts/cluster.yaml"])
def test_SE_a_file_that_redirects_an_alias_of_the_system_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: Path, spelling: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "host: 10.6.6.6\n", "hosts/cluster")
    with pytest.raises(HostFileUntrusted, match=f"leads to .*10.6.6.6:22, not .*cluster (of|in) {system}"):
        require_trust(load_host(spelling, tmp_path), None)
    system.write_text("Host *\n  HashKnownHosts yes\n")
    require_trust(load_host(spelling, tmp_path), None)


def test_the_note_about_a_file_in_place_of_an_alias_names_the_file_of_the_alias(tmp_path: Path, system: Path) -> None:
    file = write(tmp_path, "host: 10.6.6.6\n", "hosts/cluster")
    assert load_host("cluster", tmp_path).note == f"cluster is {file}, not the alias of the same name in {system}"


@pytest.mark.parametrize("name", ["cluster", "visited"])
def test_SE_a_file_that_reaches_a_machine_of_the_system_under_another_name_is_confirmed_at_a_terminal(
    tmp_path: Path, system: Path, name: str
) -> None:
    system.with_name("ssh_known_hosts").write_text(known_hosts())
    write(tmp_path, f"host: {name}\n", "hosts/rig")
    host, person = load_host("rig", tmp_path), Person(yes=True)
    require_trust(host, None)
    require_trust(host, person)
    require_trust(host, person)
    place = system.with_name("ssh_known_hosts") if name == "visited" else system
    assert len(person.questions) == 1 and f"reaches {name} of {place}" in person.questions[0]
