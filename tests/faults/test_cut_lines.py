"""Connections that are cut or deliver wrong bits: retried if that is safe, otherwise an error; and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from remote.errors import ConnectionLost
from tests.faults.lines import Chaos, laptop, reach, when
from tests.lab.injector import Fault
from tests.lab.sshd import Sshd


def test_a_read_only_request_is_repeated_after_a_lost_connection(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    host = reach(sshd.through(proxy.port))
    host.ask("file.list", {"path": "."})
    for _ in range(3):
        proxy.cut()
        assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    assert proxy.connections == 4
    host.close()


def test_a_change_whose_connection_is_cut_is_reported_and_not_repeated(
    sshd: Sshd, chaos: Chaos, tmp_path: Path
) -> None:
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


@pytest.mark.parametrize("direction", ["up", "down"])
def test_FI_07_a_flipped_bit_is_detected_and_the_request_repeated(sshd: Sshd, chaos: Chaos, direction: str) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    host = reach(sshd.through(proxy.port))
    host.ask("file.list", {"path": "."})
    proxy.injector.plan(Fault.FLIP, direction=direction, after=0)
    code = "print('x' * 200_000)"
    assert host.probe([sys.executable, "-c", code]).stdout == b"x" * 200_000 + b"\n"
    assert proxy.connections == 2
    host.close()


def test_FI_07_a_flipped_bit_during_a_change_is_reported(sshd: Sshd, chaos: Chaos) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    host = reach(sshd.through(proxy.port))
    host.write_bytes("before", b"x")
    proxy.injector.plan(Fault.FLIP, direction="up", after=100_000)
    with pytest.raises(ConnectionLost, match="unknown"):
        host.write_bytes("after", os.urandom(5_000_000))
    assert {entry.path for entry in host.list_files(".") if not entry.path.startswith("payload")} == {"before"}
    host.close()


PROGRAM = """
import sys
from tests.faults.lines import reach, endless
from remote.link.address import Address
from remote.link.ssh.sockets import Timeouts
address = Address(**eval(sys.argv[1]))
host = reach(address, Timeouts())
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
