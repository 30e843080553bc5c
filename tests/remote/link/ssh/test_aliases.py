"""Host aliases of ~/.ssh/config, as shell completion lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.link.ssh import aliases
from remote.link.ssh.aliases import USERS_CONFIG, file_of_alias, is_alias, list_aliases
from remote.link.ssh.plain_config import read_plain_config


def write(home: Path, files: dict[str, str]) -> dict[str, str]:
    for name, text in files.items():
        path = home / ".ssh" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {"HOME": str(home)}


def test_names_come_in_order_without_patterns_and_with_what_is_included(tmp_path: Path) -> None:
    files = {
        "config": "# Host no\nInclude more/*.conf missing\nHost titan  gpu-? *.lab !no\n  HostName a\nhost=cloud # x\n",
        "more/a.conf": 'Host "first one" titan\nInclude ~/.ssh/deep\n',
        "deep": "Host deep\n",
    }
    assert list_aliases(write(tmp_path, files)) == ("first one", "titan", "deep", "cloud")


def test_a_configuration_file_that_includes_itself_is_read_once(tmp_path: Path) -> None:
    assert list_aliases(write(tmp_path, {"config": "Include config\nHost a\n"})) == ("a",)


def test_an_unreadable_configuration_has_no_aliases(tmp_path: Path) -> None:
    assert list_aliases({"HOME": str(tmp_path)}) == ()
    assert list_aliases(write(tmp_path, {"config": 'Host "open\n'})) == ()


@pytest.mark.parametrize("char", ["\r", "\v", "\f", "\x1e", "\x85", "\u2028"])
def test_SE_only_a_line_feed_ends_a_line_of_the_configuration(tmp_path: Path, char: str) -> None:
    environment = write(tmp_path, {})
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_bytes(f"# note{char}Host planted\nHost titan{char}\r\n".encode())
    assert [name.strip() for name in list_aliases(environment)] == ["titan"]
    config, warnings = read_plain_config(environment)
    assert (set(config.get_hostnames()) - {"*"}, warnings) == ({"titan"}, ())


def test_another_file_may_be_named(tmp_path: Path) -> None:
    environment = write(tmp_path, {"config": "Host a\n", "other": "Host b\n"})
    assert list_aliases({**environment, "HALFSTEP_SSH_CONFIG": str(tmp_path / ".ssh" / "other")}) == ("b",)


@pytest.mark.parametrize(
    ("config", "name", "alias"),
    [
        ("Host titan\n", "titan", True),
        ("Host tit* gpu-?\n", "gpu-7", True),
        ("Host tit* !titan\n", "titan", False),
        ("Host *\n  User me\n", "titan", False),
        ("Match originalhost rig,titan\n  User me\n", "titan", True),
        ("Match localuser me host rig,tit*\n  User me\n", "titan", True),
        ('Match final exec "true" originalhost titan\n  User me\n', "titan", True),
        ("Match user host host rig\n  User me\n", "titan", False),
        ("Match host titanic user titan\n  User me\n", "titan", False),
        ("Match all\n  User me\n", "titan", False),
        ("Host titanic\n", "titan", False),
    ],
)
def test_a_name_is_an_alias_if_a_line_matches_it_but_not_every_host(
    tmp_path: Path, config: str, name: str, alias: bool
) -> None:
    assert is_alias(name, write(tmp_path, {"config": config})) is alias


@pytest.mark.parametrize(
    ("system", "name", "found"),
    [
        ("Host cluster\n  HostName 10.0.0.2\n", "cluster", True),
        ("Host login?.lab\n", "login1.lab", True),
        ("Include ssh_config.d/*.conf\nHost *\n  HashKnownHosts yes\n", "included", True),
        ("Include ssh_config.d/*.conf\nHost *\n  HashKnownHosts yes\n", "cluster", False),
        ("Host *\n  SendEnv LANG\nHost ?*\n  User me\nMatch all\n  User me\n", "cluster", False),
        ("", "cluster", False),
    ],
)
def test_SE_a_name_in_the_configuration_of_the_system_is_an_alias(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, name: str, found: bool
) -> None:
    path = tmp_path / "etc/ssh_config"
    (tmp_path / "etc/ssh_config.d").mkdir(parents=True)
    (tmp_path / "etc/ssh_config.d/lab.conf").write_text("Host included\n")
    path.write_text(system)
    monkeypatch.setattr(aliases, "SYSTEM_CONFIG", path)
    environment = write(tmp_path / "me", {"config": "Host mine\n"})
    assert not is_alias(name, environment), "ssh does not read the file if HOME is not that of the account"
    monkeypatch.setattr(aliases, "account_home", lambda: str(tmp_path / "me"))
    assert file_of_alias(name, environment) == (str(path) if found else "")
    assert file_of_alias("mine", environment) == USERS_CONFIG
    other = {**environment, "HALFSTEP_SSH_CONFIG": str(tmp_path / "none")}
    assert file_of_alias(name, other) == "", "ssh -F does not read the file of the system"
    assert list_aliases(environment) == ("mine",)
