"""The secrets of a host file are masked in what the host says, also before a run or its config is chosen."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pipeline.config.hosts import LoadedHost, load_host
from pipeline.hosts.connection import connected
from pipeline.hosts.trust import keep_trust, trusted_address
from pipeline.verbs.hosts import check_host
from remote.errors import HalfstepError
from remote.link.ssh.transport import TransportLog
from remote.protocol import hidden
from tests.lab.answers import server
from tests.lab.sshd import Sshd

SECRET = "correct-horse-battery"
StartSshd = Callable[..., Sshd]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hidden, "_values", set())
    monkeypatch.setenv("MY_SECRET", SECRET)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


def trusted_host(folder: Path, more: Mapping[str, object]) -> LoadedHost:
    """Return the host of a file that the user has confirmed."""
    file = folder / "box.yaml"
    file.write_text(json.dumps({"secrets": ["MY_SECRET"], **more}))
    host = load_host(str(file), folder)
    keep_trust(host)
    return host


@pytest.fixture
def echoing(start_sshd: StartSshd, tmp_path: Path) -> LoadedHost:
    """A host that prints the secret, for example a value of an earlier run, instead of starting a shell."""
    box = start_sshd(lines=[f"ForceCommand echo 'no shell for {SECRET}'; exit 1"])
    address = box.address()
    names = ("host", "port", "user", "identity_file", "known_hosts")
    return trusted_host(tmp_path, {name: getattr(address, name) for name in names if getattr(address, name)})


def test_SE_18_hosts_check_masks_a_secret_that_the_host_prints(echoing: LoadedHost) -> None:
    seen = check_host(echoing, None)
    details = [row.detail for row in seen.rows]
    assert any("no shell for ***" in detail for detail in details), details
    assert SECRET not in repr(seen)


def test_SE_18_a_connection_masks_a_secret_that_the_host_prints(echoing: LoadedHost) -> None:
    with pytest.raises(HalfstepError) as caught, connected(echoing, keep=False) as link:
        link.probe(["true"])
    assert "no shell for ***" in caught.value.message and SECRET not in caught.value.message


@pytest.mark.parametrize("environment", [{}, {"MY_SECRET": "another-value"}])
def test_the_values_of_the_given_environment_are_masked(tmp_path: Path, environment: dict[str, str]) -> None:
    host = trusted_host(tmp_path, {"host": "203.0.113.7"})
    trusted_address(host, {**environment, "HOME": str(tmp_path)})
    assert hidden.hidden_values() - {""} == set(environment.values())


def test_a_host_file_is_read_without_the_environment(tmp_path: Path) -> None:
    trusted_host(tmp_path, {"host": "203.0.113.7"})
    assert hidden.hidden_values() == frozenset()


@pytest.mark.parametrize(
    ("level", "text", "field"),
    [
        (logging.INFO, f"Disconnect (code 2): bye {SECRET}", "disconnect_reason"),
        (logging.ERROR, f"Exception (client): bye {SECRET}", "error"),
    ],
)
def test_SE_18_a_secret_is_masked_in_the_reason_for_the_end_of_an_ssh_connection(
    level: int, text: str, field: str
) -> None:
    hidden.hide([SECRET])
    log = TransportLog()
    log.logger.log(level, text)
    assert getattr(log, field) == "bye ***"


@pytest.mark.parametrize("before", ["hello", "x" * 285])
def test_SE_18_a_secret_is_masked_in_the_first_line_of_a_server_that_is_not_an_ssh_server(
    tmp_path: Path, before: str
) -> None:
    def speak(client: socket.socket) -> None:
        client.sendall(f"{before} {SECRET}\n".encode())
        client.close()

    with server(speak) as port:
        [row, *_] = check_host(trusted_host(tmp_path, {"host": "127.0.0.1", "port": port}), None).rows
    assert f"{before} ***" in row.detail and "correct" not in row.detail
