"""A training of this machine together with other hosts is confirmed: torch unpickles what they send."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.actions.run_group import run_on_all
from pipeline.config.hosts import LoadedHost, load_host
from pipeline.runs.consent import require_group_consent
from pipeline.runs.selection import load_selection
from pipeline.show.prompts import SecretsOnly
from pipeline.show.screen import Screen
from pipeline.stages.stage import RunOptions
from remote.errors import HostFileUntrusted
from remote.link import hosts_file
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person
from tests.pipeline.listeners import NoListener


def hosts(root: Path, **addresses: str) -> list[LoadedHost]:
    folder = root / "configs/hosts"
    folder.mkdir(parents=True, exist_ok=True)
    for name, address in addresses.items():
        (folder / f"{name}.yaml").write_text(f"host: {address}\n")
    return [load_host(name, root) for name in addresses]


@pytest.mark.parametrize("laptop", ["local", "localhost", "127.0.0.1"])
def test_this_machine_trains_with_others_only_after_a_confirmation(tmp_path: Path, laptop: str) -> None:
    group = hosts(tmp_path, evil="10.0.0.1", me=laptop)
    for nobody in (None, Person(yes=False), SecretsOnly(Screen())):
        with pytest.raises(HostFileUntrusted, match=r"evil \(10.0.0.1\) can run code as you") as caught:
            require_group_consent(group, nobody)
        assert caught.value.exit_code is ExitCode.HOST_KEY and caught.value.hint == "pipeline run --host evil"
    user = Person()
    require_group_consent(group, user)
    require_group_consent(list(reversed(group)), None)
    assert len(user.questions) == 1
    with pytest.raises(HostFileUntrusted):
        require_group_consent([*group, *hosts(tmp_path, third="10.0.0.3")], None)


def test_SE_a_name_of_this_machine_in_the_hosts_file_is_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hosts").write_text("127.0.1.1\tlaptop.lab laptop # the laptop\n10.0.0.7 other\n")
    monkeypatch.setattr(hosts_file, "HOSTS_FILE", tmp_path / "hosts")
    group = hosts(tmp_path, evil="10.0.0.1", me="Laptop", third="other")
    with pytest.raises(HostFileUntrusted, match=r"with this machine, evil \(10.0.0.1\), third \(other\) can run code"):
        require_group_consent(group, None)
    require_group_consent(group[:1] + group[2:], None)
    require_group_consent(group[1:2], None)


def test_hosts_without_this_machine_and_this_machine_alone_need_no_confirmation(tmp_path: Path) -> None:
    require_group_consent(hosts(tmp_path, a="10.0.0.1", b="10.0.0.2"), None)
    require_group_consent(hosts(tmp_path, me="127.0.0.1", again="localhost"), None)
    require_group_consent(hosts(tmp_path, me="local"), None)


@pytest.mark.parametrize("setting", ["", "port: 2222", "proxy_jump: [gate.example]"])
def test_a_tunnel_at_an_address_of_this_machine_is_another_machine(tmp_path: Path, setting: str) -> None:
    group = hosts(tmp_path, me="local", tunnel=f"localhost\n{setting}")
    with pytest.raises(HostFileUntrusted, match=r"tunnel \(localhost\) can run code as you"):
        require_group_consent(group, None)


def test_no_host_is_connected_before_the_confirmation(tmp_path: Path) -> None:
    hosts(tmp_path, evil="10.0.0.1")
    (tmp_path / "train.py").touch()
    (tmp_path / "configs/plain.yaml").write_text("project: .\ncommand: [python, train.py]\n")
    chosen = [(load_selection(name, "plain", (), tmp_path), None) for name in ("evil", "local")]
    with pytest.raises(HostFileUntrusted):
        run_on_all(chosen, NoListener(), RunOptions())  # type: ignore[arg-type]
