"""Servers that hang up, restart, are full or lack a subsystem are retried with growing waits."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from remote.errors import CannotConnect
from remote.link.agent_start import Retries
from remote.protocol.exits import ExitCode
from tests.faults.lines import Chaos, reach, when
from tests.lab.injector import Fault
from tests.lab.sshd import Sshd


def test_FI_21_a_server_without_sftp_is_sufficient(start_sshd: Callable[..., Sshd]) -> None:
    host = reach(start_sshd(lines=["Subsystem nothing /bin/false"]).address())
    host.write_bytes("file", b"x" * 100_000)
    assert host.read_bytes("file") == b"x" * 100_000
    host.close()


def test_FI_11_a_server_that_was_restarted_is_connected_to_again(sshd: Sshd) -> None:
    host = reach(sshd.address())
    host.write_bytes("one", b"1")
    sshd.stop()
    assert sshd.kill_sessions() >= 1
    sshd.start()
    assert "one" in {entry.path for entry in host.list_files(".")}
    assert host.read_bytes("one") == b"1"
    host.close()


def test_FI_12_a_server_that_hangs_up_is_tried_again_with_growing_waits(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    plan = proxy.injector.plan(Fault.REFUSE, direction="connect", times=3)
    host = reach(sshd.through(proxy.port))
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    assert plan.hits == 3
    assert proxy.connections == 4
    host.close()


def test_FI_12_a_server_that_always_hangs_up_is_given_up_after_five_tries(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    proxy.injector.plan(Fault.REFUSE, direction="connect", times=100)
    host = reach(sshd.through(proxy.port))
    with pytest.raises(CannotConnect) as caught:
        host.ask("file.list", {"path": "."})
    assert proxy.connections == 5
    assert caught.value.exit_code is ExitCode.CONNECT
    assert "too many connections" in caught.value.message
    host.close()


def test_FI_12_a_server_with_too_many_pending_logins_is_retried(start_sshd: Callable[..., Sshd]) -> None:
    server = start_sshd(lines=["MaxStartups 1:100:1"])
    lurker = socket.create_connection(("127.0.0.1", server.port))
    assert lurker.recv(100).startswith(b"SSH-2.0")
    when(lambda: "MaxStartups" in server.log, lurker.close)
    host = reach(server.address(), retries=Retries(tries=5, first_wait_s=0.4))
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()
    assert "MaxStartups" in server.log


def test_the_waits_increase_and_are_random() -> None:
    waits = [list(Retries(tries=5, first_wait_s=1.0).waits()) for _ in range(20)]
    assert all(len(row) == 4 for row in waits)
    assert all(0.5 * 2**n <= wait <= 2**n for row in waits for n, wait in enumerate(row))
    assert len({tuple(row) for row in waits}) == 20
