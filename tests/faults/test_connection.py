"""Lines that are cut, stuck, slow or wrong: seen within seconds, opened again where that is safe, told where not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.address import Address
from remote.agent import AgentHost
from remote.errors import CannotConnect, ConnectionLost, DeadlineExceeded
from remote.greeting import Retries
from remote.protocol.exits import ExitCode
from remote.ssh.dial import Patience
from remote.ssh.starter import SshStarter
from tests.lab.chaos import ChaosProxy
from tests.lab.distance import Distance
from tests.lab.injector import Fault
from tests.lab.sshd import Sshd

Chaos = Callable[..., ChaosProxy]
# The same rules as everywhere, counted in tenths of seconds: see `test_the_limits_of_every_day`.
IMPATIENT = Patience(connect_s=5.0, ping_s=0.4, silence_s=1.6)
QUICK = Retries(tries=5, first_wait_s=0.05)
SEEN_S = 30.0
"""Long for a machine with much else to do, and short for whoever would wait for an answer that never comes."""


def reach(address: Address, patience: Patience = IMPATIENT, retries: Retries = QUICK) -> AgentHost:
    return AgentHost(address.name, SshStarter(address, patience=patience), workdir=address.workdir, retries=retries)


def laptop(program: str, address: Address, *words: str, stdin: int | None = None) -> subprocess.Popen[bytes]:
    """A process of its own that reaches `address`, given to it as its first word."""
    kept = ("name", "host", "port", "user", "identity_file", "known_hosts", "workdir")
    given = {key: getattr(address, key) for key in kept}
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", program, repr(given), *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def when(true: Callable[[], bool], act: Callable[[], None]) -> None:
    """`act` is called, from a thread, once that is true."""

    def wait() -> None:
        deadline = time.monotonic() + 60.0
        while not true() and time.monotonic() < deadline:
            time.sleep(0.01)
        act()

    threading.Thread(target=wait, daemon=True).start()


def endless() -> Iterator[bytes]:
    while True:
        yield os.urandom(100_000)


def test_the_limits_of_every_day() -> None:
    patience = Patience()
    assert patience.connect_s <= 15.0
    assert patience.silence_s + 1.0 <= 45.0
    assert patience.ping_s * 2 < patience.silence_s
    assert Retries().tries == 5


def test_FI_02_a_black_hole_in_the_middle_of_sending_is_seen(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    proxy.injector.plan(Fault.BLACK_HOLE, direction="up", after=3_000_000)
    host = reach(sshd.through(proxy.port))
    host.ask("file.list", {"path": "."})
    start = time.monotonic()
    with pytest.raises(ConnectionLost) as caught:
        host.send("file.write", {"path": "big"}, endless())
    assert time.monotonic() - start < SEEN_S
    assert "nothing came over the line" in caught.value.message
    assert "unknown" in caught.value.message
    assert caught.value.exit_code is ExitCode.CONNECT
    assert host.list_files(".") == () or all(entry.path != "big" for entry in host.list_files("."))
    host.close()


def test_FI_02_a_black_hole_while_waiting_for_an_answer_is_opened_again(sshd: Sshd, chaos: Chaos) -> None:
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
    start_sshd: Callable[..., Sshd], go_far: Callable[..., Distance], tmp_path: Path
) -> None:
    line = go_far(one_way_ms=5)
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


@pytest.mark.parametrize("direction", ["up", "down"])
def test_FI_07_a_bit_that_turned_over_is_noticed_and_asked_for_again(sshd: Sshd, chaos: Chaos, direction: str) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    host = reach(sshd.through(proxy.port))
    host.ask("file.list", {"path": "."})
    proxy.injector.plan(Fault.FLIP, direction=direction, after=0)
    code = "print('x' * 200_000)"
    assert host.probe([sys.executable, "-c", code]).stdout == b"x" * 200_000 + b"\n"
    assert proxy.connections == 2
    host.close()


def test_FI_07_a_bit_that_turned_over_while_changing_is_told(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    host = reach(sshd.through(proxy.port))
    host.write_bytes("before", b"x")
    proxy.injector.plan(Fault.FLIP, direction="up", after=100_000)
    with pytest.raises(ConnectionLost, match="unknown"):
        host.write_bytes("after", os.urandom(5_000_000))
    assert {entry.path for entry in host.list_files(".") if not entry.path.startswith("payload")} == {"before"}
    host.close()


def test_FI_10_a_stopped_server_process_is_as_a_black_hole(sshd: Sshd) -> None:
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


SLEEPER = """
import sys
from tests.faults.test_connection import reach
from remote.address import Address
host = reach(Address(**eval(sys.argv[1])))
host.ask("file.list", {"path": "."})
print("asleep", flush=True)
sys.stdin.readline()
sys.stdout.write(host.probe(["echo", "awake"]).stdout.decode())
host.close()
"""


def test_FI_09_a_laptop_that_slept_drops_the_line_and_goes_on(sshd: Sshd) -> None:
    process = laptop(SLEEPER, sshd.address(), stdin=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"asleep\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(IMPATIENT.silence_s * 2)
    process.send_signal(signal.SIGCONT)
    stdout, stderr = process.communicate(b"\n", timeout=60)
    assert (stdout, stderr) == (b"awake\n", b"")


def test_FI_21_a_server_without_sftp_lacks_nothing(start_sshd: Callable[..., Sshd]) -> None:
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


def test_FI_12_five_tries_are_enough(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    proxy.injector.plan(Fault.REFUSE, direction="connect", times=100)
    host = reach(sshd.through(proxy.port))
    with pytest.raises(CannotConnect) as caught:
        host.ask("file.list", {"path": "."})
    assert proxy.connections == 5
    assert caught.value.exit_code is ExitCode.CONNECT
    assert "too many connections" in caught.value.message
    host.close()


def test_FI_12_a_server_with_too_many_starters_is_waited_for(start_sshd: Callable[..., Sshd]) -> None:
    server = start_sshd(lines=["MaxStartups 1:100:1"])
    lurker = socket.create_connection(("127.0.0.1", server.port))
    assert lurker.recv(100).startswith(b"SSH-2.0")
    when(lambda: "MaxStartups" in server.log, lurker.close)
    host = reach(server.address(), retries=Retries(tries=5, first_wait_s=0.4))
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()
    assert "MaxStartups" in server.log


def test_the_waits_grow_and_are_never_the_same() -> None:
    waits = [list(Retries(tries=5, first_wait_s=1.0).waits()) for _ in range(20)]
    assert all(len(row) == 4 for row in waits)
    assert all(0.5 * 2**n <= wait <= 2**n for row in waits for n, wait in enumerate(row))
    assert len({tuple(row) for row in waits}) == 20


def test_FI_13_a_slow_line_is_no_dead_line(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port), bytes_per_s=250_000.0)
    host = reach(sshd.through(proxy.port), Patience(connect_s=15.0, ping_s=0.4, silence_s=3.0))
    data = os.urandom(900_000)
    start = time.monotonic()
    host.send("file.write", {"path": "slow"}, [data], timeout_s=3.0)
    assert time.monotonic() - start > 3.0
    assert host.read_bytes("slow") == data
    host.close()


def test_FI_14_a_late_line_with_stalls_carries_everything(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port), delay_s=0.4)
    stalls = proxy.injector.plan(Fault.STALL, direction="up", after=50_000, times=3, seconds=0.5)
    host = reach(sshd.through(proxy.port), Patience())
    data = os.urandom(500_000)
    host.write_bytes("late", data)
    assert host.read_bytes("late") == data
    assert stalls.hits == 3
    host.close()


def test_a_cut_while_looking_is_asked_again(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    host = reach(sshd.through(proxy.port))
    host.ask("file.list", {"path": "."})
    for _ in range(3):
        proxy.cut()
        assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    assert proxy.connections == 4
    host.close()


def test_a_cut_while_changing_is_told_and_not_done_twice(sshd: Sshd, chaos: Chaos, tmp_path: Path) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    host = reach(sshd.through(proxy.port))
    host.ask("file.list", {"path": "."})
    when((tmp_path / "count").exists, proxy.cut)
    with pytest.raises(ConnectionLost) as caught:
        host.run(["sh", "-c", f"echo once >> {tmp_path}/count; sleep 20"])
    assert "command.run" in caught.value.message
    assert "unknown" in caught.value.message
    assert "again" in caught.value.hint
    assert host.probe(["cat", f"{tmp_path}/count"]).stdout == b"once\n"
    host.close()


def test_an_agent_that_says_nothing_is_left_after_its_deadline(sshd: Sshd) -> None:
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


PROGRAM = """
import sys
from tests.faults.test_connection import reach, endless
from remote.address import Address
from remote.ssh.dial import Patience
address = Address(**eval(sys.argv[1]))
host = reach(address, Patience())
host.ask("file.list", {"path": "."})
try:
    print("up", flush=True)
    if sys.argv[2] == "send":
        host.send("file.write", {"path": "x"}, endless())
    else:
        host.run(["sleep", "60"])
except KeyboardInterrupt:
    host.close()
    sys.exit(130)
"""


@pytest.mark.parametrize("doing", ["run", "send"])
@pytest.mark.parametrize("line", ["well", "stuck"])
def test_ctrl_c_returns_within_five_seconds(sshd: Sshd, chaos: Chaos, doing: str, line: str) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    address = sshd.through(proxy.port)
    process = laptop(PROGRAM, address, doing)
    assert process.stdout
    assert process.stdout.readline().startswith(b"up")
    if line == "stuck":
        proxy.black_hole()
    time.sleep(0.7)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert time.monotonic() - start < 5.0
    assert process.returncode == 130, stderr.decode()
    assert b"Traceback" not in stderr
