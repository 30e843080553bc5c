"""A dead connection is detected within seconds; a slow one is not given up."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.errors import ConnectionLost, DeadlineExceeded
from remote.link.agent_start import Retries
from remote.link.ssh.sockets import Timeouts
from remote.protocol.exits import ExitCode
from tests.faults.lines import SEEN_S, SHORT_TIMEOUTS, Chaos, endless, laptop, reach, when
from tests.lab.delayed_link import DelayedLink
from tests.lab.injector import Fault
from tests.lab.sshd import Sshd


def test_the_default_time_limits() -> None:
    timeouts = Timeouts()
    assert timeouts.connect_s <= 15.0
    assert timeouts.silence_s + 1.0 <= 45.0
    assert timeouts.keepalive_s * 2 < timeouts.silence_s
    assert Retries().tries == 5


def test_a_proxy_that_cuts_idle_connections_does_not_cut_one_that_waits_for_a_long_command(
    sshd: Sshd, chaos: Chaos
) -> None:
    proxy = chaos(("127.0.0.1", sshd.port), idle_s=2.5)
    host = reach(sshd.through(proxy.port))
    assert host.probe(["sh", "-c", "sleep 6; echo done"]).stdout == b"done\n"
    assert proxy.connections == 1
    host.close()


def test_FI_02_a_connection_that_goes_silent_during_a_send_is_detected(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    proxy.injector.plan(Fault.BLACK_HOLE, direction="up", after=3_000_000)
    host = reach(sshd.through(proxy.port))
    host.ask("file.list", {"path": "."})
    start = time.monotonic()
    with pytest.raises(ConnectionLost) as caught:
        host.send("file.write", {"path": "big"}, endless())
    assert time.monotonic() - start < SEEN_S
    assert "nothing was received" in caught.value.message
    assert "unknown" in caught.value.message
    assert caught.value.exit_code is ExitCode.CONNECT
    assert host.list_files(".") == () or all(entry.path != "big" for entry in host.list_files("."))
    host.close()


def test_FI_02_a_connection_that_goes_dead_while_waiting_for_an_answer_is_reopened(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    host = reach(sshd.through(proxy.port))
    host.ask("file.list", {"path": "."})
    proxy.black_hole()
    start = time.monotonic()
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    assert time.monotonic() - start < SEEN_S
    assert proxy.connections == 2
    host.close()


@pytest.mark.root
def test_FI_03_packets_that_are_dropped_in_the_middle_of_a_command_end_the_wait(
    start_sshd: Callable[..., Sshd], start_link: Callable[..., DelayedLink], tmp_path: Path
) -> None:
    line = start_link(one_way_ms=5)
    server = start_sshd(listen=line.far, prefix=line.prefix)
    host = reach(server.address())
    host.ask("file.list", {"path": "."})
    when((tmp_path / "begun").exists, line.cut)
    start = time.monotonic()
    with pytest.raises(ConnectionLost):
        host.run(["sh", "-c", f": > {tmp_path}/begun; sleep 60"])
    assert time.monotonic() - start < SEEN_S
    line.mend()
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()


def test_FI_10_a_stopped_server_process_counts_as_a_dead_connection(sshd: Sshd) -> None:
    host = reach(sshd.address())
    host.ask("file.list", {"path": "."})
    stopped = sshd.sessions()
    assert sshd.kill_sessions(signal.SIGSTOP) >= 1
    try:
        start = time.monotonic()
        assert host.probe(["echo", "hi"]).stdout == b"hi\n"
        assert time.monotonic() - start < SEEN_S
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    host.close()


def test_FI_13_a_slow_connection_is_not_treated_as_dead(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port), bytes_per_s=250_000.0)
    host = reach(sshd.through(proxy.port), Timeouts(connect_s=15.0, keepalive_s=0.4, silence_s=3.0))
    data = os.urandom(900_000)
    start = time.monotonic()
    host.send("file.write", {"path": "slow"}, [data], timeout_s=3.0)
    assert time.monotonic() - start > 3.0
    assert host.read_bytes("slow") == data
    host.close()


def test_FI_14_a_connection_with_latency_and_stalls_delivers_everything(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port), delay_s=0.4)
    stalls = proxy.injector.plan(Fault.STALL, direction="up", after=50_000, times=3, seconds=0.5)
    host = reach(sshd.through(proxy.port), Timeouts())
    data = os.urandom(500_000)
    host.write_bytes("late", data)
    assert host.read_bytes("late") == data
    assert stalls.hits == 3
    host.close()


SLEEPER = """
import sys
from tests.faults.lines import reach
from remote.link.address import Address
host = reach(Address(**eval(sys.argv[1])))
host.ask("file.list", {"path": "."})
print("asleep", flush=True)
sys.stdin.readline()
sys.stdout.write(host.probe(["echo", "awake"]).stdout.decode())
host.close()
"""


def test_FI_09_a_laptop_that_slept_drops_the_connection_and_continues(sshd: Sshd) -> None:
    process = laptop(SLEEPER, sshd.address(), stdin=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"asleep\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(SHORT_TIMEOUTS.silence_s * 2)
    process.send_signal(signal.SIGCONT)
    stdout, stderr = process.communicate(b"\n", timeout=60)
    assert (stdout, stderr) == (b"awake\n", b"")


def test_a_silent_agent_is_abandoned_after_its_deadline(sshd: Sshd) -> None:
    host = reach(sshd.address())
    pid = host.greeting["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        start = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            host.ask("file.list", {"path": "."}, timeout_s=1.0)
        assert time.monotonic() - start < SEEN_S
    finally:
        os.kill(pid, signal.SIGCONT)
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()
