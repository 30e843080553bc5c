"""fabric's own configuration never takes effect, and the hint for an unknown host key works when typed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.errors import HostKeyRefused
from remote.link.address import Address
from remote.link.reach import open_host
from remote.link.ssh.host_keys import own_known_hosts
from tests.lab.answers import Person
from tests.lab.sshd import Sshd

StartSshd = Callable[..., Sshd]


def test_configuration_files_and_variables_of_fabric_have_no_effect(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = sshd.root / "executed"
    Path.home().joinpath(".fabric.py").write_text(f"open({str(executed)!r}, 'w').close()\n")
    Path.home().joinpath(".fabric.yaml").write_text("gateway: nowhere.invalid\nport: 1\nforward_agent: true\n")
    monkeypatch.setenv("FABRIC_GATEWAY", "nowhere.invalid")
    monkeypatch.setenv("INVOKE_RUN_ECHO", "1")
    host = open_host(sshd.address())
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()
    assert not executed.exists()


def test_an_ssh_configuration_that_only_fabric_reads_has_no_effect(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path.home() / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config").write_text("Host *\n  ProxyCommand false\n  ForwardAgent yes\n  ConnectTimeout 1\n")
    config = tmp_path / "config"
    config.write_text(sshd.ssh_config())
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    host = open_host(Address("titan", "titan", workdir=str(sshd.home / "w")))
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()


@pytest.mark.parametrize("written", ["gate", "{user}@127.0.0.1:{port}"])
def test_SE_14_the_hint_for_a_gateway_names_the_host_that_the_user_named(
    written: str, start_sshd: StartSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, target = start_sshd("gate"), start_sshd("titan")
    user = gateway.address().user
    config = tmp_path / "config"
    known = "Host *\n  UserKnownHostsFile /dev/null\n"
    key = f'Match all\n  IdentityFile "{gateway.user_key}"\n  IdentityFile "{target.user_key}"\n'
    config.write_text(known + gateway.ssh_config("gate") + key)
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    address = target.address(
        known_hosts="/dev/null",
        proxy_jump=(written.format(user=user, port=gateway.port),),
        destination="./my hosts/t.yaml",
    )
    hints = []
    for server in (gateway, target):
        host = open_host(address)
        with pytest.raises(HostKeyRefused) as caught:
            host.probe(["true"])
        host.close()
        hints.append(caught.value.hint)
        line = server.known_line()
        own_known_hosts().parent.mkdir(parents=True, exist_ok=True)
        with own_known_hosts().open("a") as file:
            file.write(line)
    assert [shlex.split(hint.split("   ")[0])[:4] for hint in hints] == 2 * [
        ["pipeline", "hosts", "check", "./my hosts/t.yaml"]
    ]
    assert "host_key" not in hints[0], "pinning the gateway's key in the target's file would refuse the target"
    assert f"host_key={target.fingerprint()}" in hints[1]
    host = open_host(address)
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()


def test_SE_14_one_connection_at_a_terminal_asks_about_every_unknown_hop(
    start_sshd: StartSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, target = start_sshd("gate"), start_sshd("titan")
    for server in (gateway, target):
        server.known_hosts.write_text("")
    config = tmp_path / "config"
    config.write_text(gateway.ssh_config("gate") + target.ssh_config() + "  ProxyJump gate\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    person = Person(yes=True)
    address = Address("titan", "titan", workdir=str(target.home / "w"))
    for prompter, questions in ((person, [gateway, target]), (None, [])):
        host = open_host(address, prompter=prompter)
        assert host.probe(["echo", "hi"]).stdout == b"hi\n"
        host.close()
        asked = [] if prompter is None else prompter.questions
        assert len(asked) == len(questions)
        assert all(server.fingerprint() in question for server, question in zip(questions, asked, strict=True))
    assert os.stat(own_known_hosts()).st_mode & 0o777 == 0o600
