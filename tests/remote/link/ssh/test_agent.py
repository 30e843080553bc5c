"""Authentication by the keys of an ssh-agent."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.link.address import Address
from remote.link.reach import open_host
from remote.link.ssh.agent_keys import AgentTimeout, open_agent, run_within
from tests.lab.sshd import Sshd, make_key
from tests.lab.wait import PATIENCE_S
from tests.remote.link.ssh.refusals import StartSshd, refused


def accepts(path: Path) -> bool:
    """Return True if a server accepts connections at the socket, which exists before it does."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@pytest.fixture
def agent(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A real ssh-agent; its socket is in SSH_AUTH_SOCK."""
    path = tmp_path_factory.mktemp("agent") / "s"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    while not accepts(path) and process.poll() is None:
        os.sched_yield()
    yield path
    process.terminate()
    process.wait(PATIENCE_S)


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_a_key_of_the_agent_is_accepted(sshd: Sshd, agent: Path, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path / "mine", kind=kind)
    (sshd.root / "authorized_keys").write_text(Path(f"{key}.pub").read_text())
    subprocess.run(["ssh-add", "-q", key], check=True, capture_output=True)
    key.unlink()
    host = open_host(sshd.address(identity_file=None))
    assert host.probe(["true"]).ok
    assert "(agent)" in dict(host.describe())["login"]
    host.close()


def test_an_encrypted_key_that_the_agent_holds_needs_no_passphrase(
    start_sshd: StartSshd, agent: Path, tmp_path: Path
) -> None:
    server = start_sshd()
    subprocess.run(["ssh-add", "-q", server.user_key], check=True, capture_output=True)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", server.user_key], check=True)
    host = open_host(server.address())
    assert host.probe(["true"]).ok
    host.close()


def test_the_agent_that_the_ssh_configuration_names_is_used(
    sshd: Sshd, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["ssh-add", "-q", sshd.user_key], check=True, capture_output=True)
    config = tmp_path / "config"
    config.write_text(f"Host titan\n  IdentityAgent {agent}\n{sshd.ssh_config()}".replace("IdentitiesOnly yes", ""))
    sshd.user_key.unlink()
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    monkeypatch.delenv("SSH_AUTH_SOCK")
    host = open_host(Address("titan", "titan", workdir=str(sshd.home / "w")))
    assert host.probe(["true"]).ok
    assert "(agent)" in dict(host.describe())["login"]
    host.close()
    assert "SSH_AUTH_SOCK" not in os.environ


def test_an_agent_that_does_not_answer_is_passed_over(sshd: Sshd, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        assert open_agent(path, timeout_s=0.2) is None


def test_a_signature_that_takes_too_long_is_an_error_of_the_agent() -> None:
    asleep = threading.Event()
    with pytest.raises(AgentTimeout, match="did not answer"):
        run_within(0.05, asleep.wait)
    asleep.set()


def test_the_configured_key_is_tried_even_if_the_agent_holds_many_others(
    sshd: Sshd, agent: Path, tmp_path: Path
) -> None:
    for number in range(8):
        subprocess.run(["ssh-add", "-q", make_key(tmp_path / f"other{number}")], check=True, capture_output=True)
    host = open_host(sshd.address())
    assert host.probe(["true"]).ok
    host.close()


def test_too_many_keys_are_reported_as_that(sshd: Sshd, agent: Path, tmp_path: Path) -> None:
    for number in range(8):
        subprocess.run(["ssh-add", "-q", make_key(tmp_path / f"other{number}")], check=True, capture_output=True)
    error = refused(sshd, identity_file=None)
    assert "identity_file" in error.hint


def test_the_agent_is_never_forwarded(sshd: Sshd, agent: Path) -> None:
    host = open_host(sshd.address())
    assert host.probe(["printenv", "SSH_AUTH_SOCK"]).exit == 1
    host.close()
