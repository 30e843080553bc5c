"""Hosts that are down, not SSH servers, or too old: an error within seconds, with a hint."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.errors import BadUsage, CannotConnect, HalfstepError
from remote.link.address import Address
from remote.link.reach import open_host
from remote.link.ssh.sockets import Timeouts
from remote.link.ssh.starter import SshStarter
from remote.protocol.exits import ExitCode
from tests.lab.answers import server
from tests.lab.delayed_link import DelayedLink
from tests.lab.sshd import Sshd, free_port


def failure(address: Address, timeouts: Timeouts | None = None) -> HalfstepError:
    starter = SshStarter(address, timeouts=timeouts or Timeouts())
    with pytest.raises(CannotConnect) as caught:
        starter.start(["true"])
    starter.close()
    assert caught.value.exit_code is ExitCode.CONNECT
    return caught.value


def test_BI_25_a_name_that_does_not_resolve_is_reported() -> None:
    error = failure(Address("titan", "no-such-host.invalid"))
    assert "cannot resolve no-such-host.invalid" in error.message
    assert error.hint


def test_BI_26_a_closed_port_is_reported_with_the_port() -> None:
    port = free_port()
    error = failure(Address("titan", "127.0.0.1", port=port))
    assert "refused the connection" in error.message
    assert str(port) in error.message


@pytest.mark.root
def test_BI_27_a_host_that_drops_every_packet_times_out(start_link: Callable[..., DelayedLink]) -> None:
    line = start_link(one_way_ms=1)
    line.cut()
    start = time.monotonic()
    error = failure(Address("titan", line.far), Timeouts(connect_s=2.0))
    assert "timed out" in error.message
    assert time.monotonic() - start < 15.0


def test_BI_27_the_limit_is_fifteen_seconds() -> None:
    assert Timeouts().connect_s <= 15.0


def silence(client: socket.socket) -> None:
    client.recv(1)
    time.sleep(60)


def test_BI_28_a_port_that_sends_nothing_is_reported() -> None:
    with server(silence) as port:
        start = time.monotonic()
        error = failure(Address("titan", "127.0.0.1", port=port), Timeouts(connect_s=1.0))
    assert "not an SSH server" in error.message
    assert time.monotonic() - start < 15.0


def test_BI_28_an_http_server_is_reported() -> None:
    def http(client: socket.socket) -> None:
        client.recv(4096)
        client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nno\n")
        client.close()

    with server(http) as port:
        error = failure(Address("titan", "127.0.0.1", port=port))
    assert "not an SSH server" in error.message
    assert "it sends 'HTTP/1.1 400 Bad Request'" in error.message


@pytest.mark.parametrize("line_end", [b"\n", b""])
def test_BI_28_a_banner_of_a_megabyte_is_reported(line_end: bytes) -> None:
    def shout(client: socket.socket) -> None:
        client.sendall((b"x" * 999 + line_end) * 1000)
        client.close()

    with server(shout) as port:
        error = failure(Address("titan", "127.0.0.1", port=port), Timeouts(connect_s=5.0))
    assert "not an SSH server" in error.message
    assert len(error.message) < 2000


def test_BI_28_an_endless_banner_is_an_error() -> None:
    def chatter(client: socket.socket) -> None:
        while True:
            client.sendall(b"y" * 4096)

    with server(chatter) as port:
        start = time.monotonic()
        failure(Address("titan", "127.0.0.1", port=port), Timeouts(connect_s=1.0))
    assert time.monotonic() - start < 15.0


@pytest.mark.parametrize(
    "banner",
    [
        b"SSH-\r\n",
        b"SSH-2.0\r\n",
        b"SSH-1.5-old\r\n",
        b"SSH-9.9-new\r\n",
        b"\xff\xfe\xfd\r\n",
        b"SSH-2.0-\xff\xfe\r\n",
        b"SSH-2.0-x\r\n" + b"\x00" * 64,
        b"SSH-2.0-x\r\n\xff\xff\xff\xff" + b"\xff" * 64,
        b"\x00" * 200,
    ],
)
def test_SE_18_a_malformed_banner_is_a_connection_error(banner: bytes) -> None:
    def answer(client: socket.socket) -> None:
        client.recv(4096)
        client.sendall(banner)
        client.close()

    with server(answer) as port:
        error = failure(Address("titan", "127.0.0.1", port=port), Timeouts(connect_s=3.0))
    assert error.message.isprintable()


@pytest.mark.parametrize("host", ["a" * 300, ".".join(["a" * 60] * 5), "[" + "1:" * 150 + "]"])
def test_SE_18_a_host_name_of_300_characters_is_a_usage_error(host: str, tmp_path: Path) -> None:
    with pytest.raises(BadUsage) as caught:
        Address("titan", host)
    assert caught.value.exit_code is ExitCode.USAGE
    assert len(caught.value.message) < 300


def test_SE_18_a_host_name_of_300_characters_in_the_ssh_configuration_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host titan\n  HostName {'a' * 300}\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    with pytest.raises(BadUsage):
        SshStarter(Address("titan", "titan")).start(["true"])


def test_SE_18_a_label_that_is_too_long_for_dns_is_a_connection_error() -> None:
    failure(Address("titan", "a" * 100 + ".example"))


@pytest.mark.parametrize(
    ("lines", "offered"),
    [
        (["KexAlgorithms diffie-hellman-group14-sha1"], "diffie-hellman-group14-sha1"),
        (["Ciphers aes128-cbc,3des-cbc"], "aes128-cbc"),
        (["HostKeyAlgorithms ssh-rsa"], "ssh-rsa"),
    ],
)
def test_BI_29_a_server_with_only_old_algorithms_is_reported(
    start_sshd: Callable[..., Sshd], lines: list[str], offered: str
) -> None:
    old = start_sshd(lines=lines, host_kinds=("rsa",))
    error = failure(old.address())
    assert "no algorithm in common" in error.message
    assert offered in error.message
    assert "aes128-gcm@openssh.com" in error.message
    assert "curve25519-sha256" in error.message
    assert "Accepted" not in old.log


def test_a_gateway_that_cannot_reach_the_host_is_reported(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    port = free_port()
    config.write_text(sshd.ssh_config("gate") + f"Host titan\n  HostName 127.0.0.1\n  Port {port}\n  ProxyJump gate\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    error = failure(Address("titan", "titan"))
    assert f"127.0.0.1:{port}" in error.message
    assert "gateway" in error.message


def test_a_host_is_not_connected_to_before_the_first_call() -> None:
    host = open_host(Address("titan", "no-such-host.invalid"))
    host.close()
